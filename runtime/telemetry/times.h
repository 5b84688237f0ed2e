// SPDX-License-Identifier: Apache-2.0
// The times of a step: each part once, with its key, names and meaning. All code that measures,
// sums, writes, reads or shows times loops over this table; a new part is an enumerator and a row.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <ranges>
#include <string_view>
#include <utility>

namespace trireme {

// In the order of files and live views. Measured on one rank, or means over the ranks.
enum class TimePart : std::uint8_t {
  period,
  step,
  compute,
  forward,
  backward,
  optimizer,
  data_wait,
  comm_wait,
  exposed_comm,
  straggler,
  bubble,
  other,
  core_wait,
  between,
  between_steps,
  checkpoint,
  evaluation,
  stopped,
  message_wait,
  late,
  late_steps,
  micro_batches,
  reduce,
  reduce_wait,
  reduce_comm,
  tensor_comm,
  gather_comm,
  expert_comm,
  expert_wait,
  before_reduce,
  other_core_wait,
  between_core_wait,
  comm_core_wait,
  core_straggler,
  checkpoint_straggler,
  count
};

// The uses of a part, as bits.
namespace time_use {
enum Use : unsigned {
  metric = 1,     // keys of metrics.jsonl, metrics of other tools
  of_step = 2,    // add up to `step`
  of_run = 4,     // add up to a run's whole time, as shown to people
  always = 8,     // shown even if it is 0
  waiting = 16,   // waits within a step, shown in the console's lines
  of_comm = 32,   // purpose of communication; the rest is norms
  within = 64,    // "within" in a window of ranks.jsonl
  of_rank = 128,  // "by_rank" there
  split = 256     // time_split.jsonl
};
}  // namespace time_use

struct TimeRow {
  TimePart part;
  unsigned uses;
  std::string_view key;  // in files; milliseconds if it ends in _ms
  std::string_view meaning;
  // For people; the other two are given if they differ.
  std::string_view name{}, shorter{}, shortest{};

  [[nodiscard]] constexpr bool is(unsigned use) const { return (uses & use) != 0; }
  [[nodiscard]] constexpr auto stem() const { return key.substr(0, key.rfind('_')); }  // "step"
  // For a column of 13 characters, and for a long line.
  [[nodiscard]] constexpr auto label() const { return shorter.empty() ? name : shorter; }
  [[nodiscard]] constexpr auto word() const { return shortest.empty() ? label() : shortest; }
};

namespace time_table {
using enum TimePart;
using enum time_use::Use;
// In the order in which people see them.
inline constexpr TimeRow rows[] = {
    {compute, of_run | always | of_rank | split, "compute_ms",
     "a rank's own work; for a rank and for a run: while it had a core", "compute"},
    {forward, metric | of_step | within, "forward_ms",
     "forward passes, without waits for communication", "forward"},
    {backward, metric | of_step | within, "backward_ms",
     "backward passes, without waits for communication", "backward"},
    {optimizer, metric | of_step | within, "optimizer_ms",
     "norm, clip and update, without waits for communication", "optimizer"},
    {exposed_comm, metric | of_step | of_run | always | waiting | split, "exposed_comm_ms",
     "waits for communication that no computation hid", "exposed communication", "communication",
     "comm"},
    {straggler, metric | of_step | of_run | waiting | split, "straggler_ms",
     "waits in communication for a rank whose own work took longer", "waits for slow ranks",
     "slow ranks"},
    {core_wait, metric | of_run | of_rank | split, "core_wait_ms",
     "part of these times and of the time since the previous step: threads had no core (CPU)",
     "CPU contention", "cores"},
    {bubble, metric | of_step | of_run | waiting | of_rank | split, "bubble_ms",
     "waits for neighbours in the pipeline", "pipeline bubble", "bubble"},
    {data_wait,
     metric | of_step | of_run | always | waiting | of_rank | split,
     "data_wait_ms",
     "waits for the next batch, or for a rank that waited for its batch",
     "data wait",
     {},
     "data"},
    {checkpoint, of_run | of_rank, "checkpoint_ms", "between steps: stopped for a checkpoint",
     "checkpoints"},
    {evaluation, of_run | always, "evaluation_ms", "between steps: evaluated", "evaluation"},
    {stopped, of_run, "stopped_ms", "between starts: stopped, waiting to start, and lost steps",
     "stops between starts", "stops"},
    {other, metric | of_step | of_run | always, "other_ms", "the rest of the step", "other"},
    {between_steps, split, "between_steps_ms", "since the end of the previous step",
     "between steps"},
    {period, of_rank | split, "period_ms", "the step, and the time since the previous one"},
    {step, metric, "step_ms",
     "time of the step, like all times below a mean over the ranks; the eight parts from "
     "forward_ms to other_ms add up to it"},
    {reduce, metric | within, "reduce_ms",
     "gradients were being reduced, hidden behind backward or exposed"},
    {reduce_wait, within, "reduce_wait_ms", "the exposed part of reduce_ms"},
    {reduce_comm, within | of_comm, "reduce_comm_ms", "waits for sums of gradients", "gradients"},
    {tensor_comm, within | of_comm, "tensor_comm_ms",
     "waits for sums of tensor groups in passes, and for halos of samples that they share",
     "messages of tensor groups"},
    {gather_comm, within | of_comm, "gather_comm_ms", "waits for parameters",
     "gathered parameters"},
    {expert_comm, within | of_comm, "expert_comm_ms",
     "waits for rows on their way to experts and back", "rows of experts"},
    {expert_wait, within, "expert_wait_ms",
     "of the waits for rows of experts: by the counts of rows and the time of a rank's matmuls, "
     "for ranks whose experts had more"},
    // For single ranks.
    {between, of_rank, "between_ms", "between_steps_ms, with a core"},
    {comm_wait, of_rank, "comm_wait_ms", "stopped for collectives"},
    {message_wait, of_rank, "message_wait_ms",
     "any thread waited for peers' messages of collectives, hidden waits included: least on the "
     "rank that others wait for; 0 if the back end cannot tell"},
    {late, of_rank, "late_ms",
     "how late the rank came to the collectives as the last of its stage, if by 2 % of the step or "
     "more"},
    {late_steps, of_rank, "late_share", "1 for a step in which it came so late"},
    {micro_batches, of_rank, "micro_batches", "not a time: how many the rank was given"},
    {before_reduce, 0, "before_reduce_ms",
     "from the start of the step to the end of its last pass"},
    {comm_core_wait, 0, "comm_core_wait_ms", "of core_wait_ms: for messages"},
    {between_core_wait, 0, "between_core_wait_ms", "of core_wait_ms: between steps"},
    {other_core_wait, 0, "other_core_wait_ms", "of core_wait_ms: in no pass"},
    {core_straggler, split, "core_straggler_ms",
     "of straggler_ms and core_wait_ms: after a rank that had no core"},
    {checkpoint_straggler, 0, "checkpoint_straggler_ms",
     "of straggler_ms: after a rank whose checkpoint took longer"},
};
inline constexpr auto parts = static_cast<std::size_t>(TimePart::count);
static_assert(
    [] {
      unsigned long found = 0;
      for (const TimeRow& row : rows)
        found |= 1UL << static_cast<unsigned>(row.part);
      return std::size(rows) == parts && found == (1UL << parts) - 1;
    }(),
    "every part has one row");
}  // namespace time_table

[[nodiscard]] constexpr const TimeRow& row_of(TimePart part) {
  return *std::ranges::find(time_table::rows, part, &TimeRow::part);
}
// Rows of a use, in the order in which people see them.
[[nodiscard]] inline auto told_times(unsigned use) {
  return time_table::rows | std::views::filter([=](const TimeRow& row) { return row.is(use); });
}
// The same in the order of files.
[[nodiscard]] inline auto times_in_order(unsigned use) {
  return std::views::iota(std::size_t{0}, time_table::parts) |
         std::views::transform([](std::size_t part) -> const TimeRow& {
           return row_of(static_cast<TimePart>(part));
         }) |
         std::views::filter([=](const TimeRow& row) { return row.is(use); });
}

class Times {
 public:
  constexpr Times() = default;
  constexpr Times(std::initializer_list<std::pair<TimePart, double>> some) {
    for (const auto& [part, value] : some)
      (*this)[part] = value;
  }
  [[nodiscard]] constexpr double& operator[](TimePart part) {
    return values_[static_cast<std::size_t>(part)];
  }
  [[nodiscard]] constexpr double operator[](TimePart part) const {
    return values_[static_cast<std::size_t>(part)];
  }
  constexpr Times& operator+=(const Times& more) {
    for (std::size_t i = 0; i < values_.size(); ++i)
      values_[i] += more.values_[i];
    return *this;
  }
  constexpr Times& operator*=(double factor) {
    for (double& value : values_)
      value *= factor;
    return *this;
  }
  [[nodiscard]] friend constexpr Times operator*(Times times, double factor) {
    return times *= factor;
  }
  // Over the parts of a use.
  [[nodiscard]] constexpr double sum(unsigned use) const {
    double all = 0;
    for (const TimeRow& row : time_table::rows)
      if (row.is(use)) all += (*this)[row.part];
    return all;
  }

 private:
  std::array<double, time_table::parts> values_{};
};

}  // namespace trireme
