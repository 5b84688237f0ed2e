// SPDX-License-Identifier: Apache-2.0
#include "runtime/checkpoint/restore/restore.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>

#include "runtime/checkpoint/restore/parallel_reader.h"
#include "runtime/config/param_rules.h"

namespace trireme {
namespace {

constexpr std::int64_t piece_elements = std::int64_t{1} << 22;

// Whether the tensor has a row for each token.
bool grows(const std::string& name, const WeightSelection& selection) {
  return selection.tokens_there > 0 && selection.tokens_there < selection.tokens_here &&
         (name == "embedding.token.weight" || name == "head.weight" || name == "head.bias");
}

class Restorer {
 public:
  Restorer(Device& device, Stream& stream, const CheckpointValues& values,
           const WeightSelection& selection = {})
      : device_(device), stream_(stream), values_(values), selection_(selection) {}

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
    const ParamLayout::Range here = layout.stored(id).within({held.first, held.count});
    if (here.count == 0) return filled;
    const std::int64_t begin = here.first, end = here.first + here.count;
    const auto found = stored.tensors.find(spec.identity());
    if (found == stored.tensors.end()) return end;
    pad(held, filled, begin);
    if (grows(spec.identity(), selection_)) {
      fill_grown(id, held.values.range(begin - held.first, here.count), here,
                 StoredReader(stored).whole(found->second), found->second.shape);
      return end;
    }
    for (std::int64_t at = begin; at < end; at += range.count) {
      range.first = at - offset;
      range.count = std::min(end - at, piece_elements);
      read(found->second, range, held.values.range(at - held.first, range.count), reader);
    }
    return end;
  }

  // `to`: elements `here` of the whole arena.
  void fill_grown(ParamId id, const Tensor& to, const ParamLayout::Range& here,
                  std::vector<float> whole, const Shape& there) {
    const ParamLayout& layout = values_.params.layout();
    const auto width = static_cast<std::size_t>(there.count() / there[0]);
    const auto known = static_cast<std::size_t>(selection_.tokens_there);
    std::vector<double> mean(width);
    for (std::size_t i = 0; i < known * width; ++i)
      mean[i % width] += static_cast<double>(whole[i]) / static_cast<double>(known);
    whole.resize(static_cast<std::size_t>(layout.spec(id).shape.count()));
    for (std::size_t i = known * width; i < whole.size(); ++i)
      whole[i] = static_cast<float>(mean[i % width]);
    const Buffer host(device_, to.bytes(), MemoryKind::host);
    auto* const values = reinterpret_cast<float*>(host.data());
    layout.for_each_owned_run(id, here,
                              [&](std::int64_t place, std::int64_t logical, std::int64_t count) {
                                std::copy_n(whole.begin() + logical, count, values + place);
                              });
    device_.copy(stream_, to.data, host.data(), to.bytes());
    stream_.synchronize();
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
  const WeightSelection selection_;
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

// Takes what the selection leaves out from both; the shapes that remain there, as the model needs
// them where rows are added.
std::map<std::string, Shape, std::less<>> select(StoredValues& stored, const std::string& from,
                                                 std::vector<PlacedParam>& wanted,
                                                 const WeightSelection& selection) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : stored.tensors)
    names.push_back(name);
  if (const std::string* const pattern = unmatched(selection.skip, names))
    fail(ExitCode::config, "train.initial_skip: \"{}\" matches no tensor of {}; {}", *pattern, from,
         near_names(*pattern, names));
  const ParamRules skipped{.frozen = selection.skip}, kept{.frozen = selection.reinitialise};
  std::erase_if(stored.tensors, [&](const auto& entry) {
    return skipped.freezes(entry.first) || kept.freezes(entry.first);
  });
  std::erase_if(wanted,
                [&](const PlacedParam& param) { return kept.freezes(param.spec.identity()); });
  std::map<std::string, Shape, std::less<>> there;
  for (const auto& [name, tensor] : stored.tensors) {
    Shape shape = tensor.shape;
    const auto own = std::ranges::find(
        wanted, name, [](const PlacedParam& param) { return std::string_view(param.spec.name); });
    if (grows(name, selection) && own != wanted.end() && shape.rank() == own->spec.shape.rank() &&
        shape[0] >= selection.tokens_there && shape[0] <= own->spec.shape[0])
      shape = shape.rank() == 1 ? own->spec.shape : Shape{own->spec.shape[0], shape[1]};
    there.emplace(name, shape);
  }
  return there;
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
      text += fmt::format(
          "\n  {} is not in it, or not for these tensors: older versions took q, k, v as one "
          "(precision, optimizer.name; or start from its weights by train.initial_weights)",
          name);
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

RestoreReport restore_weights(StoredValues stored, const std::string& from, Device& device,
                              Stream& stream, std::span<const PlacedParam> placed,
                              ParamStore& params, const WeightSelection& selection) {
  const Stopwatch watch;
  std::vector<PlacedParam> wanted(placed.begin(), placed.end());
  const auto there = select(stored, from, wanted, selection);
  const auto is_adapter = [](const PlacedParam& param) { return param.spec.adapter; };
  const bool base = std::ranges::none_of(placed, [&](const PlacedParam& param) {
    return is_adapter(param) && there.contains(param.spec.name);
  });
  if (base) std::erase_if(wanted, is_adapter);
  const std::string problem = tensor_differences(there, wanted);
  if (!problem.empty())
    fail(ExitCode::checkpoint,
         "{}: holds the weights of another model than the config:{}\n  set model.* and lora.* to "
         "the values of these weights; to train from them name tensors that the model lacks in "
         "train.initial_skip, and those of another shape, or missing, in "
         "train.initial_reinitialise; convert weights with Hugging Face's names by `trireme "
         "checkpoint import` first, and merge adapters by `trireme checkpoint export`",
         from, problem);
  const CheckpointValues values{.params = params};
  Restorer restorer(device, stream, values, selection);
  restorer.fill(ValueKind::model, stored);
  params.refresh_compute(stream);
  stream.synchronize();
  return {restorer.bytes(), watch.milliseconds()};
}

}  // namespace trireme
