// SPDX-License-Identifier: Apache-2.0
#include "runtime/optim/factored_moments.h"

#include <algorithm>
#include <utility>

#include "runtime/ops/update/exact_sum.h"

namespace trireme {

FactoredMoments::FactoredMoments(Device& device, Stream& stream, const ParamStore& params,
                                 std::span<const ParamSpec> chain, bool exact) {
  place(chain);
  const auto n = static_cast<std::size_t>(count_);
  const auto zeroed = [&](std::size_t bytes) {
    Buffer buffer(device, bytes, MemoryKind::device);
    device.fill_zero(stream, buffer.data(), bytes);
    return buffer;
  };
  state_ = zeroed(n * sizeof(float));
  roots_ = zeroed(n * sizeof(float));
  totals_ = zeroed(n * sizeof(double));
  if (exact) states_ = zeroed(n * ops::exact_sum_words * sizeof(std::uint64_t));
  make_tables(stream, params, exact);
}

void FactoredMoments::place(std::span<const ParamSpec> chain) {
  // Kernels load 4 values at a time.
  const auto room_for = [&](std::int64_t values) {
    return std::exchange(count_, count_ + (values + 3) / 4 * 4);
  };
  for (const ParamSpec& spec : chain) {
    if (spec.kind != ParamKind::weight || spec.is_copy()) continue;
    matrix_of_.emplace(spec.identity(), matrices_.size());
    for (const ParamMatrix& matrix : matrices_of(spec))
      matrices_.push_back({.rows = matrix.rows,
                           .columns = matrix.columns,
                           .first_row = room_for(matrix.rows),
                           .first_column = room_for(matrix.columns)});
  }
}

std::vector<FactoredMoments::Block> FactoredMoments::blocks_of(const ParamSpec& spec,
                                                               const TensorSplit& split) {
  const std::vector<ParamMatrix> matrices = matrices_of(spec);
  std::vector<Block> blocks;
  for_each_matrix_run(
      spec, split, matrices,
      [&](std::int64_t stored, std::size_t matrix, std::int64_t element, std::int64_t count) {
        const std::int64_t width = matrices[matrix].columns;
        const std::int64_t row = element / width, column = element % width;
        if (count >= width) return blocks.push_back({matrix, stored, row, 0, count / width, width});
        if (!blocks.empty()) {
          Block& last = blocks.back();
          if (last.matrix == matrix && last.columns == count && last.column == column &&
              last.row + last.rows == row && last.first + last.rows * count == stored) {
            ++last.rows;
            return;
          }
        }
        blocks.push_back({matrix, stored, row, column, 1, count});
      });
  return blocks;
}

void FactoredMoments::make_tables(Stream& stream, const ParamStore& params, bool exact) {
  std::vector<ops::UpdateRun> rows;
  std::vector<ops::SquaresRun> squares;
  for (const OwnedRun& run : params.layout().owned_params())
    if (run.kind == ParamKind::weight) add_runs(run, params, rows, squares);
  std::ranges::stable_sort(squares, {}, &ops::SquaresRun::total);
  rows_ = ops::UpdateTable(stream, rows);
  table_ = ops::SquaresTable(stream, squares, count_, exact);
  table_memory_ = ops::uploaded(stream, std::as_bytes(std::span(matrices_)));
}

void FactoredMoments::add_runs(const OwnedRun& run, const ParamStore& params,
                               std::vector<ops::UpdateRun>& rows,
                               std::vector<ops::SquaresRun>& squares) const {
  const ParamLayout& layout = params.layout();
  const ParamSpec& spec = layout.spec(run.param);
  const Bucket& bucket = layout.bucket(run.param);
  const Tensor gradients = params.gradients().owned(bucket),
               masters = params.masters().owned(bucket);
  const std::size_t first_matrix = matrix_of_.at(spec.identity());
  // Index of the parameter's storage element i in this rank's slice.
  const std::int64_t origin = layout.offset(run.param) - layout.slice_first(bucket);
  for (const Block& block : blocks_of(spec, layout.split(spec))) {
    const ops::FactoredMatrix& matrix = matrices_[first_matrix + block.matrix];
    const std::int64_t here = origin + block.first, width = block.columns;
    const std::int64_t begin = std::max(run.first - here, std::int64_t{0});
    const std::int64_t end = std::min(run.first + run.count - here, block.rows * width);
    if (begin >= end) continue;
    for (std::int64_t first = begin; first < end; first = (first / width + 1) * width) {
      const std::int64_t count = std::min((first / width + 1) * width, end) - first;
      const std::int64_t row = matrix.first_row + block.row + first / width;
      const Tensor gradient = gradients.range(here + first, count);
      rows.push_back(
          {.parameter = masters.range(here + first, count),
           .gradient = gradient,
           .first = roots().range(matrix.first_column + block.column + first % width, count),
           .ratio = roots().range(row, 1)});
      if (run.counted) squares.push_back({.values = gradient, .total = row});
    }
    for (std::int64_t first = begin; run.counted && first < std::min(begin + width, end); ++first)
      squares.push_back({.values = gradients.range(here + first, end - first),
                         .total = matrix.first_column + block.column + first % width,
                         .stride = width});
  }
}

Tensor FactoredMoments::state() const {
  return state_.view(DType::f32, Shape{count_});
}

Tensor FactoredMoments::roots() const {
  return roots_.view(DType::f32, Shape{count_});
}

Tensor FactoredMoments::sums() const {
  return table_.exact() ? states_.view(DType::u64, Shape{count_ * ops::exact_sum_words})
                        : totals_.view(DType::f64, Shape{count_});
}

void FactoredMoments::sum(Stream& stream) {
  table_.exact() ? ops::sum_squares_exact(stream, sums(), table_)
                 : ops::sum_squares(stream, sums(), table_);
}

void FactoredMoments::update(Stream& stream, const Tensor& scalars) {
  const Tensor totals = totals_.view(DType::f64, Shape{count_});
  if (table_.exact()) ops::exact_sum_values(stream, totals, states_.view(DType::u64, sums().shape));
  ops::factored_moments(
      stream, state(), roots(), totals, scalars,
      {reinterpret_cast<const ops::FactoredMatrix*>(table_memory_.data()), matrices_.size()});
}

}  // namespace trireme
