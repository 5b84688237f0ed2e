// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/step/static_batches.h"

#include <array>

#include "runtime/device/arena.h"

namespace trireme {
namespace {

constexpr std::array parts{&Batch::inputs,     &Batch::targets, &Batch::weights,
                           &Batch::sample_ids, &Batch::epochs,  &Batch::document_starts};

}  // namespace

void StaticBatches::lay_out(Place& place, const Batch& like) {
  Layout layout;
  std::array<std::size_t, parts.size()> offsets{};
  for (std::size_t i = 0; i < parts.size(); ++i)
    offsets[i] = layout.reserve((like.*parts[i]).bytes());
  const MemoryScope scope(MemoryRole::staging);
  place.memory = Buffer(device_, layout.peak_bytes(), MemoryKind::device);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Tensor& tensor = like.*parts[i];
    if (tensor.empty()) continue;
    place.batch.*parts[i] = {place.memory.data() + offsets[i], tensor.dtype, tensor.shape};
  }
}

void StaticBatches::fill(BatchSource& source, Stream& copy, Stream& compute) {
  for (Place& place : places_) {
    const Batch& batch = source.next(copy, compute);
    if (place.memory.data() == nullptr) lay_out(place, batch);
    for (const auto part : parts) {
      if ((batch.*part).empty()) continue;
      device_.copy(compute, (place.batch.*part).data, (batch.*part).data, (batch.*part).bytes());
    }
  }
}

}  // namespace trireme
