// SPDX-License-Identifier: Apache-2.0
#include "runtime/config/batch_slices.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "runtime/base/error.h"
#include "runtime/config/config.h"

namespace trireme {
namespace {

std::int64_t parts_of(std::int64_t whole, std::int64_t part) {
  return (whole + part - 1) / part;
}

}  // namespace

BatchSlices BatchSlices::even(std::int64_t micro_batches, std::int64_t ranks, std::int64_t turns) {
  TRIREME_EXPECTS(ranks >= 1 && micro_batches >= ranks && ranks % turns == 0 &&
                      (turns == 1 || micro_batches % ranks == 0),
                  "{} micro-batches for {} ranks, {} in turn", micro_batches, ranks, turns);
  BatchSlices slices(micro_batches, ranks);
  slices.turns_ = turns;
  slices.narrow_ = micro_batches / ranks;
  slices.wide_ = slices.narrow_ + 1;
  slices.wide_ranks_ = micro_batches % ranks;
  return slices;
}

BatchSlices BatchSlices::tree(std::int64_t micro_batches, std::int64_t ranks) {
  BatchSlices slices = even(micro_batches, ranks);
  slices.tree_ = true;
  slices.wide_ = static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>(parts_of(micro_batches, ranks))));
  slices.narrow_ = std::max<std::int64_t>(slices.wide_ / 2, 1);
  // Runs of `narrow_` would be as many as ranks or more: each excess one merges two into one rank.
  slices.wide_ranks_ = slices.wide_ == 1 ? ranks : parts_of(micro_batches, slices.narrow_) - ranks;
  return slices;
}

BatchSlices::Run BatchSlices::of(std::int64_t rank) const {
  TRIREME_EXPECTS(rank >= 0 && rank < ranks_, "rank {} of {}", rank, ranks_);
  const std::int64_t wide = std::min(rank, wide_ranks_);
  const std::int64_t first = wide * wide_ + (rank - wide) * narrow_;
  const std::int64_t most = rank < wide_ranks_ ? wide_ : narrow_;
  return {first, std::min(most, micro_batches_ - first)};
}

std::int64_t BatchSlices::number(std::int64_t rank, std::int64_t m, std::int64_t count) const {
  if (!equal()) return of(rank).first + m;
  return rank / turns_ * turns_ * count + m * turns_ + rank % turns_;
}

std::int64_t BatchSlices::doubled() const {
  return tree_ && wide_ranks_ < ranks_ ? wide_ranks_ : 0;
}

std::string BatchSlices::to_string() const {
  constexpr std::int64_t one_by_one = 16;
  std::string text;
  for (std::int64_t rank = 0, next = 0; rank < ranks_; rank = next) {
    const std::int64_t count = of(rank).count;
    for (next = rank + 1; ranks_ > one_by_one && next < ranks_ && of(next).count == count;)
      ++next;
    text += fmt::format("{}{}", rank > 0 ? ", " : "", count);
    if (ranks_ > one_by_one) text += fmt::format(" x {}", next - rank);
  }
  return text;
}

BatchSlices batch_slices(const Config& config) {
  const std::int64_t count = config.train.global_batch / config.train.micro_batch;
  // ZeRO 2 and 3 add each micro-batch of a group's ranks at once, so those are neighbours.
  const ParallelConfig& parallel = config.parallel;
  if (parallel.zero >= 2) {
    const std::int64_t shard = parallel.shard();
    const bool whole = shard % parallel.context == 0;  // groups of context-parallel ranks
    return BatchSlices::even(count, parallel.data, whole ? shard / parallel.context : 1);
  }
  return config.reproducibility == Reproducibility::layout
             ? BatchSlices::tree(count, parallel.data)
             : BatchSlices::even(count, parallel.data);
}

}  // namespace trireme
