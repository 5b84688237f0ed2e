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

BatchSlices BatchSlices::even(std::int64_t micro_batches, std::int64_t ranks) {
  TRIREME_EXPECTS(ranks >= 1 && micro_batches >= ranks, "{} micro-batches for {} ranks",
                  micro_batches, ranks);
  BatchSlices slices(micro_batches, ranks);
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
  // ZeRO 2 and 3 deal micro-batches out round-robin, equally many per rank.
  const bool tree = config.reproducibility == Reproducibility::layout && config.parallel.zero < 2;
  return tree ? BatchSlices::tree(count, config.parallel.data)
              : BatchSlices::even(count, config.parallel.data);
}

}  // namespace trireme
