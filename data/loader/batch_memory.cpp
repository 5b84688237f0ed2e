// SPDX-License-Identifier: Apache-2.0
#include "data/loader/batch_memory.h"

#include "runtime/device/arena.h"

namespace trireme {
namespace {

Shape with_rows(std::int64_t rows, const Shape& shape) {
  std::vector<std::int64_t> extents = {rows};
  extents.insert(extents.end(), shape.extents().begin(), shape.extents().end());
  return Shape(extents);
}

}  // namespace

BatchMemory::BatchMemory(Device& of, const SampleLayout& sample, std::int64_t rows,
                         MemoryKind kind) {
  const bool labels = sample.is_labelled();
  Layout layout;
  const auto place = [&](Tensor& tensor, DType dtype, const Shape& shape) {
    tensor = {nullptr, dtype, shape};
    return layout.reserve(tensor.bytes());
  };
  const std::size_t inputs =
      place(batch.inputs, sample.input_dtype, with_rows(rows, sample.inputs));
  const std::size_t targets =
      place(batch.targets, DType::i32, labels ? Shape{rows} : with_rows(rows, sample.targets));
  const std::size_t weights =
      sample.weighted ? place(batch.weights, DType::f32, Shape{rows}) : std::size_t{0};
  const std::size_t starts =
      sample.documents ? place(batch.document_starts, DType::i32, with_rows(rows, sample.inputs))
                       : std::size_t{0};
  const std::size_t ids = place(batch.sample_ids, DType::i64, Shape{rows});
  const std::size_t epochs = place(batch.epochs, DType::i64, Shape{rows});
  buffer = Buffer(of, layout.peak_bytes(), kind);
  batch.inputs.data = buffer.data() + inputs;
  batch.targets.data = buffer.data() + targets;
  if (sample.weighted) batch.weights.data = buffer.data() + weights;
  if (sample.documents) batch.document_starts.data = buffer.data() + starts;
  batch.sample_ids.data = buffer.data() + ids;
  batch.epochs.data = buffer.data() + epochs;
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
