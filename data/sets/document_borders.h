// SPDX-License-Identifier: Apache-2.0
// Where the documents of a data set of tokens begin, for windows of it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/megatron/index.h"
#include "data/shard/shard_set.h"

namespace trireme {

class DocumentBorders {
 public:
  DocumentBorders() = default;
  // Of the shards one behind the other; a part that continues is no new document. Reads all
  // /document_offsets and raises ExitCode::data where they do not rise strictly from 0 to the
  // number of tokens.
  explicit DocumentBorders(const ShardSet& shards);
  explicit DocumentBorders(const MegatronIndex& index);

  // starts[i] = where the document of token first + i begins, counted from `first`; 0 where that is
  // at `first` or before.
  void fill(std::uint64_t first, std::span<std::int32_t> starts) const;

 private:
  std::vector<std::uint64_t> starts_;  // rising strictly
};

}  // namespace trireme
