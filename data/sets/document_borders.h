// SPDX-License-Identifier: Apache-2.0
// Document starts of a token data set, for its windows.
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
  // Over all shards in order; a part that continues starts no new document. Reads all
  // /document_offsets and raises ExitCode::data unless they rise strictly from 0 to the number of
  // tokens.
  explicit DocumentBorders(const ShardSet& shards);
  explicit DocumentBorders(const MegatronIndex& index);

  // Parts of documents in a window of `context` of all `tokens`.
  [[nodiscard]] double mean_in(std::int64_t context, std::uint64_t tokens) const {
    return 1 + static_cast<double>(context) * static_cast<double>(starts_.size()) /
                   static_cast<double>(tokens);
  }

  // starts[i] = start of the document of token first + i, relative to `first`; 0 if it starts at
  // `first` or earlier.
  void fill(std::uint64_t first, std::span<std::int32_t> starts) const;

 private:
  std::vector<std::uint64_t> starts_;  // strictly ascending
};

}  // namespace trireme
