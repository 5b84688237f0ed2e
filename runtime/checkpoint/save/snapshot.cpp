// SPDX-License-Identifier: Apache-2.0
#include "runtime/checkpoint/save/snapshot.h"

#include <algorithm>
#include <memory>

#include "runtime/checkpoint/save/direct_file.h"

namespace trireme {

Snapshot::Snapshot(Device& device, const ProcessMesh& mesh, const CheckpointValues& values,
                   std::span<const ManifestTensor> tensors)
    : device_(device),
      from_(values),
      slices_(own_slices(values.params.layout(), mesh, tensors)),
      begun_(device.make_event(EventKind::timed)),
      taken_(device.make_event(EventKind::timed)),
      copied_(device.make_event(EventKind::awaited)) {
  const auto buckets = values.params.layout().buckets();
  for (const ValueKind kind : values.kinds()) {
    std::int64_t elements = 0;
    for (const OwnSlice& own : slices_) {
      if (has_value(buckets[static_cast<std::size_t>(own.bucket)].kind, kind))
        elements += own.slice.count;
    }
    const auto bytes = static_cast<std::size_t>(elements) * sizeof(float);
    Values& values = values_[static_cast<std::size_t>(kind)];
    values.memory = Buffer(device, bytes + DirectFile::alignment, MemoryKind::host);
    void* start = values.memory.data();
    std::size_t room = values.memory.bytes();
    std::align(DirectFile::alignment, bytes, start, room);
    values.aligned = {static_cast<std::byte*>(start), bytes};
  }
  for (const auto& [name, tensor] : values.scalars)
    scalars_.emplace_back(device, tensor.bytes(), MemoryKind::host);
}

void Snapshot::touch() {
  for (const Values& values : values_)
    std::ranges::fill(values.aligned, std::byte{0});
}

void Snapshot::take(Stream& stream) {
  const auto buckets = from_.params.layout().buckets();
  stream.record(*begun_);
  for (const ValueKind kind : from_.kinds()) {
    std::byte* to = values_[static_cast<std::size_t>(kind)].aligned.data();
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
  stream.record(*copied_);
}

double Snapshot::wait() const {
  copied_->synchronize();
  return taken_->milliseconds_since(*begun_);
}

std::span<const std::byte> Snapshot::values(ValueKind kind) const {
  return values_[static_cast<std::size_t>(kind)].aligned;
}

std::uint64_t Snapshot::bytes() const {
  std::uint64_t sum = 0;
  for (const Values& values : values_)
    sum += values.aligned.size();
  return sum;
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
