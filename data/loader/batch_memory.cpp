// SPDX-License-Identifier: Apache-2.0
#include "data/loader/batch_memory.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>

#include "runtime/device/arena.h"

namespace trireme {
namespace {

Shape with_rows(std::int64_t rows, const Shape& shape) {
  std::vector<std::int64_t> extents = {rows};
  extents.insert(extents.end(), shape.extents().begin(), shape.extents().end());
  return Shape(extents);
}

// N of Batch::document_bounds: rarely exceeded, and rounded so that few plans serve all sizes.
std::int64_t document_slots(const SampleLayout& sample, std::int64_t rows) {
  const double mean = static_cast<double>(rows) * sample.mean_documents;
  return static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>(std::ceil(mean + 4 * std::sqrt(mean)))));
}

}  // namespace

BatchMemory::BatchMemory(Device& of, const SampleLayout& sample, std::int64_t rows,
                         MemoryKind kind) {
  Layout layout;
  const auto place = [&](Tensor& tensor, DType dtype, const Shape& shape) {
    tensor = {nullptr, dtype, shape};
    return layout.reserve(tensor.bytes());
  };
  const std::size_t inputs =
      place(batch.inputs, sample.input_dtype, with_rows(rows, sample.inputs));
  const std::size_t targets =
      place(batch.targets, sample.target_dtype, with_rows(rows, sample.targets));
  const std::size_t weights =
      sample.weighted ? place(batch.weights, DType::f32, Shape{rows}) : std::size_t{0};
  const std::size_t starts =
      sample.documents ? place(batch.document_starts, DType::i32, with_rows(rows, sample.inputs))
                       : std::size_t{0};
  const std::size_t bounds = sample.documents ? place(batch.document_bounds, DType::i32,
                                                      Shape{document_slots(sample, rows) + 1})
                                              : std::size_t{0};
  const std::size_t ids = place(batch.sample_ids, DType::i64, Shape{rows});
  const std::size_t epochs = place(batch.epochs, DType::i64, Shape{rows});
  buffer = Buffer(of, layout.peak_bytes(), kind);
  batch.padded = sample.documents && !sample.predicts_next;
  batch.inputs.data = buffer.data() + inputs;
  batch.targets.data = buffer.data() + targets;
  if (sample.weighted) batch.weights.data = buffer.data() + weights;
  if (sample.documents) batch.document_starts.data = buffer.data() + starts;
  if (sample.documents) batch.document_bounds.data = buffer.data() + bounds;
  batch.sample_ids.data = buffer.data() + ids;
  batch.epochs.data = buffer.data() + epochs;
}

bool bound_documents(const Batch& batch) {
  if (batch.document_starts.empty()) return true;
  const std::int64_t rows = batch.document_starts.shape[0], length = batch.document_starts.shape[1];
  const std::span bounds(batch.document_bounds.as<std::int32_t>(),
                         static_cast<std::size_t>(batch.document_bounds.count()));
  std::size_t found = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int32_t* const starts = batch.document_starts.as<std::int32_t>() + row * length;
    for (std::int64_t t = 0; t < length; ++t) {
      if (starts[t] != t) continue;
      if (found + 1 == bounds.size()) return false;
      bounds[found++] = static_cast<std::int32_t>(row * length + t);
    }
  }
  std::ranges::fill(bounds.subspan(found), static_cast<std::int32_t>(rows * length));
  return true;
}

LoaderMemory::LoaderMemory(Device& of, const SampleLayout& of_data, std::int64_t rows,
                           const LoaderOptions& options) {
  SampleLayout sample = of_data;
  sample.documents = sample.documents || options.context.has_value();
  const MemoryScope scope(MemoryRole::staging);
  for (std::int64_t i = 0; i < options.prefetch; ++i)
    host.emplace_back(of, sample, rows, MemoryKind::host);
  for (std::int64_t i = 0; i <= options.held; ++i)
    device.emplace_back(of, sample, rows, MemoryKind::device);
}

}  // namespace trireme
