// SPDX-License-Identifier: Apache-2.0
// The tensors that a step goes over, as tables on the device: one launch for all of them, however
// many a model has. Made once; the tensors stay where they are and outlive the table, and the table
// outlives what was enqueued with it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/device/device.h"

namespace trireme::ops {

// What an optimizer updates alike: all f32 and of one size but for `compute` and `ratio`; of those
// that an optimizer does not ask for, none need be there.
struct UpdateRun {
  Tensor parameter{};
  Tensor gradient{};
  Tensor compute{};  // the parameter rounded to a compute dtype, one in a table; may be absent
  Tensor first{}, second{};  // moments
  Tensor ratio{};            // factors of the step
  bool decays = false;
  float rate = 1;  // multiplies the learning rate; the decay stays that of the learning rate
};

// UpdateRun as kernels read it.
struct UpdateEntry {
  float* parameter;
  float* gradient;
  void* compute;
  float *first, *second;
  const float* ratio;
  std::int64_t count;
  std::int64_t tile;  // the first of its tiles among those of the table
  float rate;
  bool decays;
};

class UpdateTable {
 public:
  // What a block of threads takes at a time; no tile has elements of two runs.
  static constexpr std::int64_t tile_elements = 4096;

  UpdateTable() = default;
  // Waits for the stream, until the table is on the device.
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

// `values` on the device; waits for the stream.
[[nodiscard]] Buffer uploaded(Stream& stream, std::span<const std::byte> values);

// Values whose squares go to one of several totals. Runs come in the order of their totals.
struct SquaresRun {
  Tensor values{};  // f32
  std::int64_t total = 0;
  std::int64_t stride = 1;  // every so many of the values counts, the first one does
};

struct SquaresEntry {
  const float* values;
  std::int64_t count;  // of the values that count
  std::int64_t part;   // the first of its parts among those of the table
  std::int64_t stride;
};

class SquaresTable {
 public:
  // Elements of a part: a chunk of fixed_sum.h, or what is long beside the words of an exact sum.
  static constexpr std::int64_t part_elements = 4096, exact_part_elements = 65536;

  SquaresTable() = default;
  // `exact`: for sum_squares_exact, else for sum_squares. Waits as UpdateTable.
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
  // On the device: room for the sum of each part, then of each run.
  [[nodiscard]] std::byte* sums() const { return sums_.data(); }

 private:
  std::vector<SquaresEntry> entries_;
  std::vector<std::int64_t> first_run_{0};
  Buffer entry_memory_, run_memory_, sums_;
  std::int64_t parts_ = 0, elements_ = 0;
  bool exact_ = false;
};

// For the CPU: the values of a run that count, one after the other, in `room` where they are not.
inline const float* neighbours(const SquaresEntry& run, std::vector<float>& room) {
  if (run.stride == 1) return run.values;
  room.resize(static_cast<std::size_t>(run.count));
  for (std::size_t i = 0; i < room.size(); ++i)
    room[i] = run.values[static_cast<std::int64_t>(i) * run.stride];
  return room.data();
}

// totals(n) f64 = sums of squares. Each run in the fixed chunks of fixed_sum.h, then runs in order:
// no atomics, the same bits for the same values.
void sum_squares(Stream& stream, const Tensor& totals, const SquaresTable& table);

// states(n * exact_sum_words) u64 = exact sums of squares (exact_sum.h), every limb below 2^32.
void sum_squares_exact(Stream& stream, const Tensor& states, const SquaresTable& table);

}  // namespace trireme::ops
