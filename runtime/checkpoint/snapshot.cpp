// SPDX-License-Identifier: Apache-2.0
#include "runtime/checkpoint/snapshot.h"

#include <numeric>

namespace trireme {

Snapshot::Snapshot(Device& device, const ProcessMesh& mesh, const CheckpointValues& values,
                   std::span<const ManifestTensor> tensors)
    : device_(device),
      from_(values),
      slices_(own_slices(values.params.layout(), mesh, tensors)),
      taken_(device.make_event()) {
  const auto buckets = values.params.layout().buckets();
  for (const ValueKind kind : values.kinds()) {
    std::int64_t elements = 0;
    for (const OwnSlice& own : slices_) {
      if (has_value(buckets[static_cast<std::size_t>(own.bucket)].kind, kind))
        elements += own.slice.count;
    }
    buffers_[static_cast<std::size_t>(kind)] =
        Buffer(device, static_cast<std::size_t>(elements) * sizeof(float), MemoryKind::host);
  }
  for (const auto& [name, tensor] : values.scalars)
    scalars_.emplace_back(device, tensor.bytes(), MemoryKind::host);
}

void Snapshot::take(Stream& stream) {
  const auto buckets = from_.params.layout().buckets();
  for (const ValueKind kind : from_.kinds()) {
    std::byte* to = buffers_[static_cast<std::size_t>(kind)].data();
    for (const OwnSlice& own : slices_) {
      const Bucket& bucket = buckets[static_cast<std::size_t>(own.bucket)];
      if (!has_value(bucket.kind, kind)) continue;
      const Held held = held_of(from_, kind, bucket);
      const Tensor values = held.values.range(own.element - held.first, own.slice.count);
      device_.copy(stream, to, values.data, values.bytes());
      to += values.bytes();
    }
  }
  for (std::size_t i = 0; i < scalars_.size(); ++i)
    device_.copy(stream, scalars_[i].data(), from_.scalars[i].second.data, scalars_[i].bytes());
  stream.record(*taken_);
}

std::span<const std::byte> Snapshot::values(ValueKind kind) const {
  const Buffer& buffer = buffers_[static_cast<std::size_t>(kind)];
  return {buffer.data(), buffer.bytes()};
}

std::vector<std::pair<std::string, std::string>> Snapshot::scalars() const {
  std::vector<std::pair<std::string, std::string>> texts;
  for (std::size_t i = 0; i < scalars_.size(); ++i) {
    std::string digits;
    for (std::size_t b = 0; b < scalars_[i].bytes(); ++b)
      digits += fmt::format("{:02x}", scalars_[i].data()[b]);
    texts.emplace_back(from_.scalars[i].first, digits);
  }
  return texts;
}

}  // namespace trireme
