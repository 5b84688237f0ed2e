// SPDX-License-Identifier: Apache-2.0
// Distributes the micro-batches of a global batch over the data-parallel ranks, as a pure function
// of their number: a contiguous, non-empty run per rank, or if several ranks take micro-batches in
// turn, per group of such ranks. Context-parallel ranks count as one (MeshShape::sample_ranks).
#pragma once

#include <cstdint>
#include <string>

namespace trireme {

struct Config;

class BatchSlices {
 public:
  struct Run {
    std::int64_t first = 0, count = 0;
  };

  // Run lengths differ by at most one, longer runs first. `turns` > 1: groups of so many ranks take
  // the micro-batches of the group's run in turn; all ranks must have equally many.
  [[nodiscard]] static BatchSlices even(std::int64_t micro_batches, std::int64_t ranks,
                                        std::int64_t turns = 1);
  // Every run is a node of the binary tree over micro-batches whose left half is the largest power
  // of two below their number (runtime/parallel/grad_reducer.h). Starts from aligned runs of the
  // smallest power of two that gives at most `ranks` runs, then halves the last ones until there
  // are `ranks`.
  [[nodiscard]] static BatchSlices tree(std::int64_t micro_batches, std::int64_t ranks);

  [[nodiscard]] std::int64_t micro_batches() const { return micro_batches_; }
  [[nodiscard]] std::int64_t ranks() const { return ranks_; }
  [[nodiscard]] Run of(std::int64_t rank) const;  // as if ranks took no turns
  [[nodiscard]] std::int64_t turns() const { return turns_; }
  // Number of micro-batch `m` of `rank` in a global batch of which every rank has `count`, or if
  // ranks have different numbers, its own.
  [[nodiscard]] std::int64_t number(std::int64_t rank, std::int64_t m, std::int64_t count) const;
  [[nodiscard]] std::int64_t largest() const { return of(0).count; }
  // Every rank holds the same number.
  [[nodiscard]] bool equal() const { return largest() * ranks_ == micro_batches_; }
  // The first doubled() ranks hold two leaves each of the tree over ranks
  // (Communicator::set_doubled); 0 if that tree is balanced.
  [[nodiscard]] std::int64_t doubled() const;
  // "2, 1, 1", or for many ranks "2 x 100, 1 x 28"
  [[nodiscard]] std::string to_string() const;

 private:
  BatchSlices(std::int64_t micro_batches, std::int64_t ranks) noexcept
      : micro_batches_(micro_batches), ranks_(ranks) {}

  // The first `wide_ranks_` have runs of `wide_`, the others of `narrow_`; the last run is
  // shortened to fit.
  std::int64_t micro_batches_, ranks_, turns_ = 1;
  std::int64_t wide_ = 1, wide_ranks_ = 0, narrow_ = 1;
  bool tree_ = false;
};

// For a checked config.
[[nodiscard]] BatchSlices batch_slices(const Config& config);

}  // namespace trireme
