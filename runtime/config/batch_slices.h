// SPDX-License-Identifier: Apache-2.0
// Which micro-batches of a global batch each data-parallel rank holds, as a pure function of how
// many there are: a run of them for each rank, none without any.
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

  // Runs that differ by one at most, the longer ones first.
  [[nodiscard]] static BatchSlices even(std::int64_t micro_batches, std::int64_t ranks);
  // Every run is a node of the binary tree over micro-batches whose left half is the largest power
  // of two below their number (runtime/parallel/grad_reducer.h). From aligned runs of the smallest
  // power of two that makes no more than `ranks` of them the last ones are halved until there are
  // as many.
  [[nodiscard]] static BatchSlices tree(std::int64_t micro_batches, std::int64_t ranks);

  [[nodiscard]] std::int64_t micro_batches() const { return micro_batches_; }
  [[nodiscard]] std::int64_t ranks() const { return ranks_; }
  [[nodiscard]] Run of(std::int64_t rank) const;
  [[nodiscard]] std::int64_t largest() const { return of(0).count; }
  // Every rank holds as many.
  [[nodiscard]] bool equal() const { return largest() * ranks_ == micro_batches_; }
  // The first so many ranks stand for two leaves each in the tree over ranks
  // (Communicator::set_doubled): none where that is the balanced one.
  [[nodiscard]] std::int64_t doubled() const;
  // "2, 1, 1", and of many ranks "2 x 100, 1 x 28"
  [[nodiscard]] std::string to_string() const;

 private:
  BatchSlices(std::int64_t micro_batches, std::int64_t ranks) noexcept
      : micro_batches_(micro_batches), ranks_(ranks) {}

  // The first `wide_ranks_` have runs of `wide_`, the others of `narrow_`; what is beyond the end
  // is cut off the last one's.
  std::int64_t micro_batches_, ranks_;
  std::int64_t wide_ = 1, wide_ranks_ = 0, narrow_ = 1;
  bool tree_ = false;
};

// Of a config whose rules were checked.
[[nodiscard]] BatchSlices batch_slices(const Config& config);

}  // namespace trireme
