// SPDX-License-Identifier: Apache-2.0
#include "runtime/nn/param_store.h"

#include <algorithm>
#include <numeric>

#include "runtime/base/philox.h"
#include "runtime/ops/elementwise/elementwise.h"
#include "runtime/ops/random/init.h"

namespace trireme {
namespace {

Buffer floats(Device& device, std::int64_t count) {
  return {device, static_cast<std::size_t>(count) * sizeof(float), MemoryKind::device};
}

Tensor range_of(const Buffer& arena, DType dtype, std::int64_t first, std::int64_t count) {
  TRIREME_EXPECTS(arena.data() != nullptr, "this rank has no such arena");
  return {arena.data() + static_cast<std::size_t>(first) * size_of(dtype), dtype, Shape{count}};
}

}  // namespace

void ParamStore::allocate(Device& device, const StoreOptions& options) {
  options_ = options;
  device_ = &device;
  layout_.lay_out(options.zero, options.bucket_elements);
  level_of_.assign(specs().size(), 0);
  const MemoryScope parameters(MemoryRole::parameters);
  const auto units = static_cast<std::size_t>(std::max(layout_.unit_count(), 1));
  std::int64_t widest = 0;
  for (int unit = 0; unit < static_cast<int>(units); ++unit)
    widest = std::max(widest, layout_.unit_weights(unit).count);
  const auto make_places = [&](Places& places, int count, DType dtype) {
    places.of_unit.assign(units, -1);
    for (int i = 0; i < count; ++i) {
      places.buffers.emplace_back(device, static_cast<std::size_t>(widest) * size_of(dtype),
                                  MemoryKind::device);
    }
  };
  const bool rounded = options.compute != DType::f32;
  masters_ = floats(device, sliced_masters() ? layout_.owned_elements() : element_count());
  if (sliced_masters()) {
    make_places(master_places_, param_buffers, DType::f32);
    if (rounded) make_places(compute_places_, param_buffers, options.compute);
  } else if (rounded) {
    compute_ = Buffer(device, static_cast<std::size_t>(element_count()) * size_of(options.compute),
                      MemoryKind::device);
  }
  if (!options.training) return;
  const MemoryScope gradients(MemoryRole::gradients);
  for (int level = 0; level < options.gradient_levels; ++level) {
    gradients_.push_back(
        floats(device, sliced_gradients() ? layout_.owned_elements() : element_count()));
  }
  if (sliced_gradients()) make_places(gradient_places_, gradient_buffers, DType::f32);
}

std::size_t ParamStore::Places::bytes() const {
  return std::accumulate(
      buffers.begin(), buffers.end(), std::size_t{0},
      [](std::size_t sum, const Buffer& buffer) { return sum + buffer.bytes(); });
}

std::size_t ParamStore::parameter_bytes() const {
  return masters_.bytes() + compute_.bytes() + master_places_.bytes() + compute_places_.bytes();
}

std::size_t ParamStore::gradient_bytes() const {
  std::size_t sum = gradient_places_.bytes();
  for (const Buffer& level : gradients_)
    sum += level.bytes();
  return sum;
}

void ParamStore::initialize_param(Stream& stream, ParamId id, std::uint64_t seed) {
  const ParamSpec& spec = layout_.spec(id);
  const Tensor values = master(id);
  const std::string& identity = spec.identity();
  const std::uint64_t key = stable_id(identity.data(), identity.size());
  if (spec.init.kind == Init::Kind::constant)
    return ops::fill_constant(stream, values, spec.init.a);
  if (spec.init.kind == Init::Kind::sinusoid) {
    TRIREME_EXPECTS(!is_split(spec, layout_.split()),
                    "parameter {} starts as sine waves and is split", spec.name);
    return ops::fill_sinusoid(stream, values, spec.init.a);
  }
  const auto fill = spec.init.kind == Init::Kind::normal ? ops::fill_normal : ops::fill_uniform;
  for_each_run(
      spec, layout_.split(), [&](std::int64_t stored, std::int64_t logical, std::int64_t count) {
        fill(stream, values.range(stored, count), seed, key, logical, spec.init.a, spec.init.b);
      });
}

void ParamStore::initialize(Stream& stream, std::uint64_t seed) {
  if (!sliced_masters()) {
    ops::fill_constant(stream, masters(), 0.0F);  // padding included
    for (const ParamId id : order())
      initialize_param(stream, id, seed);
    refresh_compute(stream);
    return;
  }
  // Whole units in turn, of which only the own slices stay.
  for (int unit = 0; unit < std::max(layout_.unit_count(), 1); ++unit) {
    place_params(unit, 0);
    const auto weights = layout_.unit_weights(unit);
    if (weights.count > 0)
      ops::fill_constant(stream, range_of(master_places_.buffers[0], DType::f32, 0, weights.count),
                         0.0F);
    for (const ParamId id : order()) {
      if (layout_.unit_of(id) == unit) initialize_param(stream, id, seed);
    }
    for (const Bucket& bucket : layout_.buckets()) {
      if (bucket.kind != ParamKind::weight || !bucket.units.contains(unit)) continue;
      const Tensor own = owned_master(bucket);
      const std::int64_t skipped = layout_.slice_first(bucket) - bucket.first;
      device_->copy(stream, own.data, bucket_master(bucket).range(skipped, own.count()).data,
                    own.bytes());
    }
  }
}

void ParamStore::refresh_compute(Stream& stream) {
  if (options_.compute != DType::f32 && !sliced_masters())
    ops::cast(stream, compute_copies(), masters());
}

void ParamStore::refresh_compute(Stream& stream, const Bucket& bucket) {
  if (options_.compute == DType::f32 || bucket.kind != ParamKind::weight) return;
  const Tensor from = bucket_master(bucket);
  const Tensor to = sliced_masters()
                        ? Tensor{placed(compute_places_, bucket.units.first, bucket.first,
                                        size_of(options_.compute), "compute copies"),
                                 options_.compute, from.shape}
                        : range_of(compute_, options_.compute, bucket.first, bucket.count);
  ops::cast(stream, to, from);
}

std::byte* ParamStore::placed(const Places& places, int unit, std::int64_t element,
                              std::size_t element_bytes, std::string_view what) const {
  const int buffer = places.of_unit[static_cast<std::size_t>(unit)];
  TRIREME_EXPECTS(buffer >= 0, "the {} of unit {} are not there", what, unit);
  const std::int64_t skipped = element - layout_.unit_weights(unit).first;
  return places.buffers[static_cast<std::size_t>(buffer)].data() +
         static_cast<std::size_t>(skipped) * element_bytes;
}

Tensor ParamStore::master(ParamId id) const {
  const Shape shape = stored_shape(layout_.spec(id), layout_.split());
  if (sliced_masters() && layout_.spec(id).kind == ParamKind::weight) {
    return {placed(master_places_, layout_.unit_of(id), offset(id), sizeof(float), "parameters"),
            DType::f32, shape};
  }
  const Bucket& bucket = layout_.buckets()[static_cast<std::size_t>(layout_.bucket_of(id))];
  const std::int64_t first =
      sliced_masters() ? bucket.owned + offset(id) - bucket.first : offset(id);
  return range_of(masters_, DType::f32, first, shape.count()).reshaped(shape);
}

Tensor ParamStore::gradient(ParamId id) const {
  const Shape shape = stored_shape(layout_.spec(id), layout_.split());
  if (sliced_gradients() && layout_.spec(id).kind == ParamKind::weight) {
    return {placed(gradient_places_, layout_.unit_of(id), offset(id), sizeof(float), "gradients"),
            DType::f32, shape};
  }
  const Bucket& bucket = layout_.buckets()[static_cast<std::size_t>(layout_.bucket_of(id))];
  const int level = level_of_[layout_.at(id)];
  TRIREME_EXPECTS(level < static_cast<int>(gradients_.size()), "gradient level {} of {}", level,
                  gradients_.size());
  const std::int64_t first =
      sliced_gradients() ? bucket.owned + offset(id) - bucket.first : offset(id);
  return range_of(gradients_[static_cast<std::size_t>(level)], DType::f32, first, shape.count())
      .reshaped(shape);
}

Tensor ParamStore::compute(ParamId id) const {
  const ParamSpec& spec = layout_.spec(id);
  if (options_.compute == DType::f32 || !spec.matrix) return master(id);
  const Shape shape = stored_shape(spec, layout_.split());
  if (sliced_masters()) {
    return {placed(compute_places_, layout_.unit_of(id), offset(id), size_of(options_.compute),
                   "compute copies"),
            options_.compute, shape};
  }
  return range_of(compute_, options_.compute, offset(id), shape.count()).reshaped(shape);
}

Tensor ParamStore::masters() const {
  TRIREME_EXPECTS(!sliced_masters(), "the parameters are sliced over the data-parallel ranks");
  return range_of(masters_, DType::f32, 0, element_count());
}

Tensor ParamStore::gradients(int level) const {
  TRIREME_EXPECTS(!sliced_gradients() && level < static_cast<int>(gradients_.size()),
                  "whole gradients of level {} of {}", level, gradients_.size());
  return range_of(gradients_[static_cast<std::size_t>(level)], DType::f32, 0, element_count());
}

Tensor ParamStore::partial_sums(int level) const {
  return range_of(gradients_[static_cast<std::size_t>(level)], DType::f32, 0,
                  sliced_gradients() ? layout_.owned_elements() : element_count());
}

Tensor ParamStore::compute_copies() const {
  return options_.compute == DType::f32 ? Tensor{}
                                        : range_of(compute_, options_.compute, 0, element_count());
}

Tensor ParamStore::bucket_master(const Bucket& bucket) const {
  if (sliced_masters() && bucket.kind == ParamKind::weight) {
    return {placed(master_places_, bucket.units.first, bucket.first, sizeof(float), "parameters"),
            DType::f32, Shape{bucket.count}};
  }
  return range_of(masters_, DType::f32, sliced_masters() ? bucket.owned : bucket.first,
                  bucket.count);
}

Tensor ParamStore::bucket_gradient(const Bucket& bucket, int level) const {
  if (sliced_gradients() && bucket.kind == ParamKind::weight) {
    return {placed(gradient_places_, bucket.units.first, bucket.first, sizeof(float), "gradients"),
            DType::f32, Shape{bucket.count}};
  }
  return range_of(gradients_[static_cast<std::size_t>(level)], DType::f32,
                  sliced_gradients() ? bucket.owned : bucket.first, bucket.count);
}

Tensor ParamStore::owned_master(const Bucket& bucket) const {
  return range_of(masters_, DType::f32,
                  sliced_masters() ? bucket.owned : layout_.slice_first(bucket),
                  layout_.slice_count(bucket));
}

Tensor ParamStore::owned_gradient(const Bucket& bucket, int level) const {
  return range_of(gradients_[static_cast<std::size_t>(level)], DType::f32,
                  sliced_gradients() ? bucket.owned : layout_.slice_first(bucket),
                  layout_.slice_count(bucket));
}

Tensor ParamStore::owned_compute(const Bucket& bucket) const {
  if (options_.compute == DType::f32 || sliced_masters()) return {};
  return range_of(compute_, options_.compute, layout_.slice_first(bucket),
                  layout_.slice_count(bucket));
}

void ParamStore::select_level(UnitRange units, ParamKind kind, int level) {
  for (const ParamId id : order()) {
    if (units.contains(layout_.unit_of(id)) && layout_.spec(id).kind == kind)
      level_of_[layout_.at(id)] = level;
  }
}

Tensor ParamStore::place_gradients(int unit, int buffer) {
  std::ranges::replace(gradient_places_.of_unit, buffer, -1);
  gradient_places_.of_unit[static_cast<std::size_t>(unit)] = buffer;
  return range_of(gradient_places_.buffers[static_cast<std::size_t>(buffer)], DType::f32, 0,
                  layout_.unit_weights(unit).count);
}

void ParamStore::place_params(int unit, int buffer) {
  for (Places* const places : {&master_places_, &compute_places_}) {
    if (places->buffers.empty()) continue;
    std::ranges::replace(places->of_unit, buffer, -1);
    places->of_unit[static_cast<std::size_t>(unit)] = buffer;
  }
}

}  // namespace trireme
