// SPDX-License-Identifier: Apache-2.0
#include "data/sets/document_borders.h"

#include <algorithm>
#include <optional>

#include "runtime/base/error.h"

namespace trireme {

DocumentBorders::DocumentBorders(const ShardSet& shards) {
  std::vector<std::uint64_t> offsets;
  for (std::size_t i = 0; i < shards.shards().size(); ++i) {
    const Shard& shard = shards.shards()[i];
    offsets.resize(shard.header.documents + 1);
    shards.read_index(i, 0, std::as_writable_bytes(std::span(offsets)), std::nullopt);
    const bool rising = std::ranges::adjacent_find(offsets, std::greater_equal{}) == offsets.end();
    if (!rising || offsets.front() != 0 || offsets.back() != shard.header.count)
      fail(ExitCode::data,
           "{}: /document_offsets do not increase from 0 to {}: the shard is damaged; check it "
           "with `trireme data inspect --verify` and re-pack",
           shard.path, shard.header.count);
    for (std::size_t k = shard.header.continues ? 1 : 0; k + 1 < offsets.size(); ++k)
      starts_.push_back(shards.start_of(i) + offsets[k]);
  }
}

DocumentBorders::DocumentBorders(const MegatronIndex& index) : starts_(document_starts(index)) {}

void DocumentBorders::fill(std::uint64_t first, std::span<std::int32_t> starts) const {
  auto next = std::ranges::upper_bound(starts_, first);
  std::int32_t start = 0;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    if (next != starts_.end() && *next == first + i) {
      start = static_cast<std::int32_t>(i);
      ++next;
    }
    starts[i] = start;
  }
}

}  // namespace trireme
