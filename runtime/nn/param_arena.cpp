// SPDX-License-Identifier: Apache-2.0
#include "runtime/nn/param_arena.h"

#include <algorithm>
#include <numeric>

namespace trireme {
namespace {

Tensor view_of(const Buffer& memory, DType dtype, std::int64_t first, std::int64_t count) {
  return {memory.data() + static_cast<std::size_t>(first) * size_of(dtype), dtype, Shape{count}};
}

}  // namespace

ParamArena::ParamArena(Device& device, const ParamLayout& layout, const Options& options)
    : layout_(&layout), options_(options) {
  const auto make = [&](std::int64_t elements) {
    return Buffer(device, static_cast<std::size_t>(elements) * size_of(options.dtype),
                  MemoryKind::device);
  };
  if (options.form != Form::buffers_only) {
    for (int level = 0; level < options.levels; ++level)
      memory_.push_back(make(held_elements()));
  }
  const int units = std::max(layout.unit_count(), 1);
  buffer_of_.assign(static_cast<std::size_t>(units), -1);
  std::int64_t widest = 0;
  for (int unit = 0; unit < units; ++unit)
    widest = std::max(widest, layout.unit_weights(unit).count);
  for (int i = 0; i < options.buffers; ++i)
    buffers_.push_back(make(widest));
}

std::int64_t ParamArena::held_elements() const {
  const ParamLayout& all = *layout_;
  if (options_.form == Form::whole)
    return options_.frozen ? all.elements() : all.trained_elements();
  if (options_.form == Form::kept) return all.kept_elements();
  if (options_.form == Form::experts) return all.expert_elements();
  return options_.frozen ? all.owned_elements() : all.owned_trained_elements();
}

std::size_t ParamArena::bytes() const {
  const auto add = [](std::size_t sum, const Buffer& memory) { return sum + memory.bytes(); };
  return std::accumulate(memory_.begin(), memory_.end(),
                         std::accumulate(buffers_.begin(), buffers_.end(), std::size_t{0}, add),
                         add);
}

Tensor ParamArena::range(int level, std::int64_t first, std::int64_t count) const {
  TRIREME_EXPECTS(level < static_cast<int>(memory_.size()), "this rank has {} levels of {}, not {}",
                  memory_.size(), options_.what, level + 1);
  return view_of(memory_[static_cast<std::size_t>(level)], options_.dtype, first, count);
}

Tensor ParamArena::elements(const Bucket& bucket, int unit, int level, std::int64_t first,
                            std::int64_t count) const {
  if (options_.form == Form::whole) return range(level, first, count);
  if (options_.form == Form::experts)
    return range(level, bucket.experts + first - bucket.first, count);
  if (options_.form == Form::kept && !layout_->keeps_slice(bucket))
    return range(level, bucket.kept + first - bucket.first, count);
  if (bucket.kind != ParamKind::weight)
    return range(level, bucket.owned + first - bucket.first, count);
  const int buffer = buffer_of_[static_cast<std::size_t>(unit)];
  TRIREME_EXPECTS(buffer >= 0, "the {} of unit {} are not in memory", options_.what, unit);
  return view_of(buffers_[static_cast<std::size_t>(buffer)], options_.dtype,
                 first - layout_->unit_weights(unit).first, count);
}

Tensor ParamArena::whole(int level) const {
  const bool all = options_.form == Form::whole ||
                   (options_.form == Form::kept && layout_->kept_elements() == layout_->elements());
  TRIREME_EXPECTS(all, "the {} are sliced over the data-parallel ranks", options_.what);
  return held(level);
}

Tensor ParamArena::held(int level) const {
  return range(level, 0, held_elements());
}

Tensor ParamArena::param(ParamId id, int level) const {
  const ParamSpec& spec = layout_->spec(id);
  const Shape shape = stored_shape(spec, layout_->split(spec));
  return elements(layout_->bucket(id), layout_->unit_of(id), level, layout_->offset(id),
                  shape.count())
      .reshaped(shape);
}

Tensor ParamArena::bucket(const Bucket& bucket, int level) const {
  return elements(bucket, bucket.units.first, level, bucket.first, bucket.count);
}

Tensor ParamArena::kept(const Bucket& bucket) const {
  TRIREME_EXPECTS(options_.form == Form::kept, "the {} are not of that form", options_.what);
  return range(0, bucket.kept, layout_->kept(bucket).count);
}

Tensor ParamArena::owned(const Bucket& bucket, int level) const {
  if (options_.form == Form::buffers_only) return {};
  const std::int64_t first = layout_->slice_first(bucket), count = layout_->slice_count(bucket);
  if (options_.form == Form::kept)
    return range(level, bucket.kept + first - layout_->kept(bucket).first, count);
  return range(level, options_.form == Form::slices ? bucket.owned : first, count);
}

Tensor ParamArena::owned(const OwnedRun& run) const {
  const Tensor slice = owned(layout_->bucket(run.param));
  return slice.empty() ? slice : slice.range(run.first, run.count);
}

Tensor ParamArena::owned(ParamId id) const {
  const ParamLayout::Range slice = layout_->slice(layout_->bucket(id)),
                           own = layout_->stored(id).within(slice);
  if (own.count == 0) return {};
  return owned(layout_->bucket(id)).range(own.first - slice.first, own.count);
}

void ParamArena::zero(Stream& stream) const {
  for (const Buffer& memory : memory_)
    if (memory.bytes() > 0) stream.device().fill_zero(stream, memory.data(), memory.bytes());
}

Tensor ParamArena::place(int unit, int buffer) {
  std::ranges::replace(buffer_of_, buffer, -1);
  buffer_of_[static_cast<std::size_t>(unit)] = buffer;
  return view_of(buffers_[static_cast<std::size_t>(buffer)], options_.dtype, 0,
                 layout_->unit_weights(unit).count);
}

}  // namespace trireme
