// SPDX-License-Identifier: Apache-2.0
#include "runtime/checkpoint/restore/restore.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>

#include "runtime/checkpoint/restore/parallel_reader.h"

namespace trireme {
namespace {

constexpr std::int64_t piece_elements = std::int64_t{1} << 22;

class Restorer {
 public:
  Restorer(Device& device, Stream& stream, const CheckpointValues& values)
      : device_(device), stream_(stream), values_(values) {}

  void fill(ValueKind kind, const StoredValues& stored) {
    ParallelReader reader(stored);
    const ParamLayout& layout = values_.params.layout();
    const auto buckets = layout.buckets();
    // Parameters are in arena order.
    auto next = layout.order().begin();
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      const Held held = held_of(values_, kind, buckets[b]);
      std::int64_t filled = held.first;
      for (; next != layout.order().end() && layout.bucket_of(*next) == static_cast<int>(b); ++next)
        if (!held.values.empty()) filled = fill(*next, held, filled, stored, reader);
      if (!held.values.empty()) pad(held, filled, held.first + held.count);
    }
    bytes_ += reader.bytes_read();
  }

  void set_scalar(const Tensor& to, std::string_view digits) {
    const Buffer bytes(device_, to.bytes(), MemoryKind::host);
    for (std::size_t i = 0; i < to.bytes(); ++i) {
      unsigned value = 0;
      std::from_chars(digits.data() + 2 * i, digits.data() + 2 * i + 2, value, 16);
      bytes.data()[i] = static_cast<std::byte>(value);
    }
    device_.copy(stream_, to.data, bytes.data(), to.bytes());
    stream_.synchronize();
  }

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  // Fills the arena from element `filled` on; returns the end.
  std::int64_t fill(ParamId id, const Held& held, std::int64_t filled, const StoredValues& stored,
                    ParallelReader& reader) {
    const ParamLayout& layout = values_.params.layout();
    const ParamSpec& spec = layout.spec(id);
    const TensorSplit& split = layout.split(spec);
    const bool blocked = is_split(spec, split);
    StoredRange range{.blocking = blocking_of(spec, split),
                      .first_block = blocked ? split.first() : 0,
                      .local_blocks = blocked ? split.local() : 1};
    range.block_count = stored_shape(spec, split).count() / range.local_blocks;
    const std::int64_t offset = layout.offset(id);
    const std::int64_t begin = std::max(offset, held.first);
    const std::int64_t end =
        std::min(offset + stored_shape(spec, split).count(), held.first + held.count);
    if (begin >= end) return filled;
    if (spec.adapter && !stored.tensors.contains(spec.identity())) return end;
    pad(held, filled, begin);
    for (std::int64_t at = begin; at < end; at += range.count) {
      range.first = at - offset;
      range.count = std::min(end - at, piece_elements);
      read(stored.tensors.find(spec.identity())->second, range,
           held.values.range(at - held.first, range.count), reader);
    }
    return end;
  }

  void read(const StoredTensor& tensor, const StoredRange& range, const Tensor& to,
            ParallelReader& reader) {
    if (device_.type() == DeviceType::cpu)  // memory that the host may write
      return reader.read(tensor, range, reinterpret_cast<float*>(to.data));
    Stage& stage = stages_[turn_++ % stages_.size()];
    if (stage.memory.bytes() < to.bytes()) {
      stage.copied = device_.make_event();
      stage.memory = Buffer(device_, piece_elements * sizeof(float), MemoryKind::host);
    }
    stage.copied->synchronize();  // of two iterations ago
    reader.read(tensor, range, reinterpret_cast<float*>(stage.memory.data()));
    device_.copy(stream_, to.data, stage.memory.data(), to.bytes());
    stream_.record(*stage.copied);
  }

  // Padding must be zero.
  void pad(const Held& held, std::int64_t from, std::int64_t to) {
    if (from >= to) return;
    const Tensor gap = held.values.range(from - held.first, to - from);
    device_.fill_zero(stream_, gap.data, gap.bytes());
  }

  // Double buffer: the host fills one while the device copies from the other.
  struct Stage {
    Buffer memory;
    std::unique_ptr<Event> copied;
  };

  Device& device_;
  Stream& stream_;
  const CheckpointValues& values_;
  std::array<Stage, 2> stages_;
  std::size_t turn_ = 0;
  std::uint64_t bytes_ = 0;
};

class Stopwatch {
 public:
  [[nodiscard]] double milliseconds() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_)
        .count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

std::string tensor_differences(const std::map<std::string, Shape, std::less<>>& there,
                               std::span<const PlacedParam> placed) {
  std::string text;
  std::size_t found = 0;
  for (const auto& [spec, stage] : placed) {
    const auto entry = there.find(spec.name);
    if (entry == there.end()) {
      text += fmt::format("\n  {} {} is not in it", spec.name, spec.shape.to_string());
      continue;
    }
    ++found;
    if (entry->second != spec.shape)
      text += fmt::format("\n  {} is {} in it, the model needs {}", spec.name,
                          entry->second.to_string(), spec.shape.to_string());
  }
  for (const auto& [name, shape] : there) {
    if (found == there.size()) break;
    if (std::ranges::none_of(placed, [&](const PlacedParam& p) { return p.spec.name == name; }))
      text += fmt::format("\n  {} {} is in it and not in the model", name, shape.to_string());
  }
  return text;
}

}  // namespace

std::string differences(const Manifest& manifest, std::span<const PlacedParam> placed,
                        const CheckpointValues& values) {
  std::map<std::string, Shape, std::less<>> there;
  for (const ManifestTensor& tensor : manifest.tensors)
    there.emplace(tensor.name, tensor.shape);
  std::string text = tensor_differences(there, placed);
  for (const ValueKind kind : value_kinds) {
    if (values.has(kind) && !manifest.has(kind))
      text += fmt::format(
          "\n  {} is not in it (optimizer.name, optimizer.momentum, "
          "train.ema_decay)",
          name_of(kind));
    if (!values.has(kind) && manifest.has(kind))
      text += fmt::format(
          "\n  {} is in it, but the config does not use it (optimizer.name, optimizer.momentum, "
          "train.ema_decay)",
          name_of(kind));
  }
  for (const auto& [name, tensor] : values.scalars) {
    const auto entry =
        std::ranges::find(manifest.scalars, name, &std::pair<std::string, std::string>::first);
    if (entry == manifest.scalars.end() && values.starts_anew(name)) continue;
    if (entry == manifest.scalars.end() || entry->second.size() != 2 * tensor.bytes())
      text += fmt::format("\n  {} is not in it (precision, optimizer.name)", name);
  }
  return text;
}

RestoreReport restore_checkpoint(const FoundCheckpoint& from, Device& device, Stream& stream,
                                 std::span<const PlacedParam> placed,
                                 const CheckpointValues& values) {
  const Stopwatch watch;
  const std::string problem = differences(from.manifest, placed, values);
  if (!problem.empty())
    fail(ExitCode::checkpoint,
         "{}: is of another model or optimizer than the config:{}\n  use the config that it was "
         "saved with, or another run.directory",
         from.path, problem);
  Restorer restorer(device, stream, values);
  for (const ValueKind kind : values.kinds())
    restorer.fill(kind, stored_values(from.path, from.manifest, kind));
  for (const auto& [name, tensor] : values.scalars) {
    const auto entry =
        std::ranges::find(from.manifest.scalars, name, &std::pair<std::string, std::string>::first);
    if (entry != from.manifest.scalars.end()) restorer.set_scalar(tensor, entry->second);
  }
  values.params.refresh_compute(stream);
  stream.synchronize();
  return {restorer.bytes(), watch.milliseconds()};
}

RestoreReport restore_weights(const StoredValues& stored, const std::string& from, Device& device,
                              Stream& stream, std::span<const PlacedParam> placed,
                              ParamStore& params) {
  const Stopwatch watch;
  std::map<std::string, Shape, std::less<>> there;
  for (const auto& [name, tensor] : stored.tensors)
    there.emplace(name, tensor.shape);
  const auto is_adapter = [](const PlacedParam& param) { return param.spec.adapter; };
  std::vector<PlacedParam> wanted(placed.begin(), placed.end());
  const bool base = std::ranges::none_of(placed, [&](const PlacedParam& param) {
    return is_adapter(param) && there.contains(param.spec.name);
  });
  if (base) std::erase_if(wanted, is_adapter);
  const std::string problem = tensor_differences(there, wanted);
  if (!problem.empty())
    fail(ExitCode::checkpoint,
         "{}: holds the weights of another model than the config:{}\n  set model.* and lora.* to "
         "the values of these weights; convert weights with Hugging Face's names by `trireme "
         "checkpoint import` first, and merge adapters by `trireme checkpoint export`",
         from, problem);
  const CheckpointValues values{.params = params};
  Restorer restorer(device, stream, values);
  restorer.fill(ValueKind::model, stored);
  params.refresh_compute(stream);
  stream.synchronize();
  return {restorer.bytes(), watch.milliseconds()};
}

}  // namespace trireme
