// SPDX-License-Identifier: Apache-2.0
// What the numbers in a data set stand for: its ids by a tokenizer, its labels by class names. Two
// data sets, or a data set and a run, that meet must agree in that.
#pragma once

#include <string>
#include <vector>

#include "data/shard/shard.h"

namespace trireme {

struct IdNames {
  std::string source;                // the file that says so, for messages
  std::string tokenizer;             // empty: images, or not known
  std::vector<std::string> classes;  // empty: tokens, or not known
};

[[nodiscard]] IdNames id_names_of(const Shard& shard);
// Of the first shard that Dataset::open would find there.
[[nodiscard]] IdNames id_names_at(const std::string& path, const std::string& split);

// Of every data set below `path`, which must agree.
[[nodiscard]] std::vector<IdNames> id_names_below(const std::string& path);

// Raises ExitCode::data, naming both sources and what they say, when an id or label of `given` may
// stand for something else than in `wanted`. What one of them does not know is accepted. Tokenizers
// that carry a checksum are compared by it: by that of their tokens where both have one. Classes
// that are only numbered (0, 1, ...) say how many they are, and agree with as many names or more.
void require_same_ids(const IdNames& wanted, const IdNames& given);

}  // namespace trireme
