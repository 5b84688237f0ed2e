// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/update/update_table.h"

#include <algorithm>
#include <cstring>

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/fixed_sum.h"
#include "runtime/ops/common/operands.h"
#include "runtime/ops/update/exact_sum.h"

namespace trireme::ops {

TRIREME_KERNELS(sum_squares, sum_squares_exact);

static_assert(SquaresTable::part_elements == sum_chunk);

namespace {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

float* pointer_to(const Tensor& tensor) {
  return tensor.empty() ? nullptr : tensor.as<float>();
}

bool begins_at(const Tensor& tensor, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(tensor.data) % bytes == 0;
}

}  // namespace

// In small pieces through pinned memory.
Buffer uploaded(Stream& stream, std::span<const std::byte> values) {
  Device& device = stream.device();
  constexpr std::size_t most = std::size_t{16} << 10;
  Buffer memory(device, values.size(), MemoryKind::device);
  const Buffer staging(device, std::min(values.size(), most), MemoryKind::host);
  for (std::size_t done = 0; done < values.size(); done += most) {
    const std::size_t now = std::min(most, values.size() - done);
    std::memcpy(staging.data(), values.data() + done, now);
    device.copy(stream, memory.data() + done, staging.data(), now);
    stream.synchronize();
  }
  return memory;
}

UpdateTable::UpdateTable(Stream& stream, std::span<const UpdateRun> runs) {
  for (const UpdateRun& run : runs)
    add(run);
  memory_ = uploaded(stream, std::as_bytes(std::span(entries_)));
}

void UpdateTable::add(const UpdateRun& run) {
  const Operands check("update table");
  const auto values = [&](std::string_view name, const Tensor& tensor) {
    check.present(name, tensor);
    check.dtype(name, tensor, DType::f32);
    check.count(name, tensor, run.parameter.count());
  };
  values("parameter", run.parameter);
  values("gradient", run.gradient);
  if (!run.first.empty()) values("first moment", run.first);
  if (!run.second.empty()) values("second moment", run.second);
  if (!run.ratio.empty()) check.dtype("ratio", run.ratio, DType::f32);
  if (!run.compute.empty()) {
    check.compute_dtype("compute", run.compute);
    check.count("compute", run.compute, run.parameter.count());
    TRIREME_EXPECTS(compute_ == DType::f32 || compute_ == run.compute.dtype,
                    "update table: compute copies in {} and in {}", name_of(compute_),
                    name_of(run.compute.dtype));
    compute_ = run.compute.dtype;
  }
  const Tensor* const all[] = {&run.parameter, &run.gradient, &run.first, &run.second,
                               &run.compute};
  constexpr std::string_view names[] = {"parameter", "gradient", "first moment", "second moment",
                                        "compute"};
  for (std::size_t i = 0; i < std::size(all); ++i) {
    for (std::size_t j = 0; j < i; ++j)
      check.disjoint(names[i], *all[i], names[j], *all[j]);
    aligned_ = aligned_ && begins_at(*all[i], all[i]->empty() ? 1 : 4 * size_of(all[i]->dtype));
  }
  first_ = first_ && !run.first.empty();
  second_ = second_ && !run.second.empty();
  ratio_ = ratio_ && !run.ratio.empty();
  entries_.push_back({.parameter = run.parameter.as<float>(),
                      .gradient = run.gradient.as<float>(),
                      .compute = run.compute.empty() ? nullptr : run.compute.data,
                      .first = pointer_to(run.first),
                      .second = pointer_to(run.second),
                      .ratio = pointer_to(run.ratio),
                      .count = run.parameter.count(),
                      .tile = tiles_,
                      .rate = run.rate,
                      .decay = run.decay});
  elements_ += run.parameter.count();
  if (!run.compute.empty()) copied_bytes_ += run.compute.bytes();
  tiles_ += ceil_div(run.parameter.count(), tile_elements);
}

const UpdateEntry* UpdateTable::on_device() const {
  return reinterpret_cast<const UpdateEntry*>(memory_.data());
}

SquaresTable::SquaresTable(Stream& stream, std::span<const SquaresRun> runs, std::int64_t totals,
                           bool exact)
    : exact_(exact) {
  const Operands check("table of squares");
  for (const SquaresRun& run : runs) {
    check.present("values", run.values);
    check.dtype("values", run.values, DType::f32);
    TRIREME_EXPECTS(run.total >= this->totals() && run.total < totals,
                    "table of squares: a run of total {} of {} after {} totals", run.total, totals,
                    this->totals());
    first_run_.resize(static_cast<std::size_t>(run.total) + 1,
                      static_cast<std::int64_t>(entries_.size()));
    const std::int64_t values = ceil_div(run.values.count(), run.stride);
    entries_.push_back(
        {.values = run.values.as<float>(), .count = values, .part = parts_, .stride = run.stride});
    elements_ += values;
    parts_ += ceil_div(values, exact ? exact_part_elements : part_elements);
  }
  const auto count = static_cast<std::int64_t>(entries_.size());
  first_run_.resize(static_cast<std::size_t>(totals) + 1, count);
  entry_memory_ = uploaded(stream, std::as_bytes(std::span(entries_)));
  run_memory_ = uploaded(stream, std::as_bytes(std::span(first_run_)));
  const std::int64_t words = exact ? parts_ * exact_sum_words : parts_ + count;
  sums_ =
      Buffer(stream.device(), static_cast<std::size_t>(words) * sizeof(double), MemoryKind::device);
}

const SquaresEntry* SquaresTable::entries_on_device() const {
  return reinterpret_cast<const SquaresEntry*>(entry_memory_.data());
}

const std::int64_t* SquaresTable::first_run_on_device() const {
  return reinterpret_cast<const std::int64_t*>(run_memory_.data());
}

namespace {

// Two kernels: one for the parts, of `words` u64 or f64 each, and one that joins them.
Passes over(const SquaresTable& table, std::int64_t words, std::int64_t joined) {
  const auto values = static_cast<double>(table.elements()) * sizeof(float);
  const auto entries =
      static_cast<double>(2 * table.entries().size_bytes() + table.first_run().size_bytes());
  const auto sums = static_cast<double>(table.parts() * words + joined) * sizeof(double);
  return Passes().bytes(values + entries + sums, sums).kernels(2);
}

}  // namespace

void sum_squares(Stream& stream, const Tensor& totals, const SquaresTable& table) {
  const Operands check("sum_squares");
  check.is("totals", totals, DType::f64, Shape{table.totals()});
  TRIREME_EXPECTS(!table.exact(), "sum_squares: a table for exact sums");
  const auto runs = static_cast<std::int64_t>(table.entries().size());
  TRIREME_DISPATCH(stream, sum_squares, over(table, 1, runs).writes(totals), totals, table);
}

void sum_squares_exact(Stream& stream, const Tensor& states, const SquaresTable& table) {
  const Operands check("sum_squares_exact");
  check.is("states", states, DType::u64, Shape{table.totals() * exact_sum_words});
  TRIREME_EXPECTS(table.exact(), "sum_squares_exact: a table for rounded sums");
  TRIREME_DISPATCH(stream, sum_squares_exact, over(table, exact_sum_words, 0).writes(states),
                   states, table);
}

}  // namespace trireme::ops
