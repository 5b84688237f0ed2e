// SPDX-License-Identifier: Apache-2.0
// The meaning of the numbers in a data set: ids by a tokenizer, labels by class names. Data sets
// used together, or with a run, must agree.
#pragma once

#include <string>
#include <vector>

#include "data/shard/shard.h"

namespace trireme {

struct IdNames {
  std::string source;                // the file that defines them, for messages
  std::string tokenizer;             // empty: images, or unknown
  std::vector<std::string> classes;  // empty: tokens, or unknown
};

[[nodiscard]] IdNames id_names_of(const Shard& shard);
// From the first shard that Dataset::open would find.
[[nodiscard]] IdNames id_names_at(const std::string& path, const std::string& split);

// From every data set below `path`; they must agree.
[[nodiscard]] std::vector<IdNames> id_names_below(const std::string& path);

// Raises ExitCode::data, naming both sources and their values, if an id or label of `given` may
// have another meaning in `wanted`. Accepts meanings that one of them does not have. Compares
// tokenizers by checksum: by that of their tokens if both have one. Classes that are only numbered
// (0, 1, ...) agree with at least as many names.
void require_same_ids(const IdNames& wanted, const IdNames& given);

}  // namespace trireme
