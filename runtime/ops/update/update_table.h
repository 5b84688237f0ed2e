// SPDX-License-Identifier: Apache-2.0
// The tensors of a step as tables on the device, so one launch covers any number of them. Made
// once; the tensors must stay in place and outlive the table, and the table must outlive the work
// enqueued with it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/device/device.h"

namespace trireme::ops {

// Tensors that an optimizer updates alike: all f32 and of one size except `compute` and `ratio`;
// those that the optimizer does not use may be absent.
struct UpdateRun {
  Tensor parameter{};
  Tensor gradient{};
  Tensor compute{};          // the parameter in the table's compute dtype; may be absent
  Tensor first{}, second{};  // moments
  Tensor ratio{};            // factors of the step
  float decay = 0;           // share of the weight decay
  float rate = 1;            // multiplies the learning rate, not the decay
};

// UpdateRun for kernels.
struct UpdateEntry {
  float* parameter;
  float* gradient;
  void* compute;
  float *first, *second;
  const float* ratio;
  std::int64_t count;
  std::int64_t tile;  // number of its first tile in the table
  float rate;
  float decay;
};

class UpdateTable {
 public:
  // Elements per thread block; no tile spans two runs.
  static constexpr std::int64_t tile_elements = 4096;

  UpdateTable() = default;
  // Blocks until the table is on the device.
  UpdateTable(Stream& stream, std::span<const UpdateRun> runs);

  [[nodiscard]] std::span<const UpdateEntry> entries() const { return entries_; }
  [[nodiscard]] const UpdateEntry* on_device() const;
  [[nodiscard]] std::int64_t tiles() const { return tiles_; }
  [[nodiscard]] std::int64_t elements() const { return elements_; }
  [[nodiscard]] DType compute() const { return compute_; }
  [[nodiscard]] std::size_t copied_bytes() const { return copied_bytes_; }
  // Whether every run has one.
  [[nodiscard]] bool has_first() const { return first_; }
  [[nodiscard]] bool has_second() const { return second_; }
  [[nodiscard]] bool has_ratio() const { return ratio_; }
  // Whether kernels may move 4 elements of every tensor at a time.
  [[nodiscard]] bool aligned() const { return aligned_; }

 private:
  void add(const UpdateRun& run);

  std::vector<UpdateEntry> entries_;
  Buffer memory_;
  std::int64_t tiles_ = 0, elements_ = 0;
  std::size_t copied_bytes_ = 0;
  DType compute_ = DType::f32;
  bool first_ = true, second_ = true, ratio_ = true, aligned_ = true;
};

// `values` on the device; blocks until copied.
[[nodiscard]] Buffer uploaded(Stream& stream, std::span<const std::byte> values);

// Values whose squares are added to one of several totals. Runs are ordered by total.
struct SquaresRun {
  Tensor values{};  // f32
  std::int64_t total = 0;
  std::int64_t stride = 1;  // only every stride-th value counts, from the first on
};

struct SquaresEntry {
  const float* values;
  std::int64_t count;  // number of counted values
  std::int64_t part;   // number of its first part in the table
  std::int64_t stride;
};

class SquaresTable {
 public:
  // Elements per part: a chunk of fixed_sum.h, or many compared with the words of an exact sum.
  static constexpr std::int64_t part_elements = 4096, exact_part_elements = 65536;

  SquaresTable() = default;
  // `exact`: for sum_squares_exact, else for sum_squares. Blocks like UpdateTable.
  SquaresTable(Stream& stream, std::span<const SquaresRun> runs, std::int64_t totals, bool exact);

  [[nodiscard]] bool exact() const { return exact_; }
  [[nodiscard]] std::int64_t totals() const {
    return static_cast<std::int64_t>(first_run_.size()) - 1;
  }
  [[nodiscard]] std::int64_t parts() const { return parts_; }
  [[nodiscard]] std::int64_t elements() const { return elements_; }
  [[nodiscard]] std::span<const SquaresEntry> entries() const { return entries_; }
  // The runs of total i are [first_run()[i], first_run()[i + 1]).
  [[nodiscard]] std::span<const std::int64_t> first_run() const { return first_run_; }
  [[nodiscard]] const SquaresEntry* entries_on_device() const;
  [[nodiscard]] const std::int64_t* first_run_on_device() const;
  // On the device: scratch for the sum of each part, then of each run.
  [[nodiscard]] std::byte* sums() const { return sums_.data(); }

 private:
  std::vector<SquaresEntry> entries_;
  std::vector<std::int64_t> first_run_{0};
  Buffer entry_memory_, run_memory_, sums_;
  std::int64_t parts_ = 0, elements_ = 0;
  bool exact_ = false;
};

// For the CPU: the counted values of a run, contiguous; copied to `module` if necessary.
inline const float* neighbours(const SquaresEntry& run, std::vector<float>& room) {
  if (run.stride == 1) return run.values;
  room.resize(static_cast<std::size_t>(run.count));
  for (std::size_t i = 0; i < room.size(); ++i)
    room[i] = run.values[static_cast<std::int64_t>(i) * run.stride];
  return room.data();
}

// totals(n) f64 = sums of squares. Each run in the fixed chunks of fixed_sum.h, then runs in order:
// no atomics, equal bits for equal values.
void sum_squares(Stream& stream, const Tensor& totals, const SquaresTable& table);

// states(n * exact_sum_words) u64 = exact sums of squares (exact_sum.h), every limb below 2^32.
void sum_squares_exact(Stream& stream, const Tensor& states, const SquaresTable& table);

}  // namespace trireme::ops
