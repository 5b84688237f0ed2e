// SPDX-License-Identifier: Apache-2.0
#include "runtime/nn/param_store.h"

#include <algorithm>

#include "runtime/base/philox.h"
#include "runtime/ops/elementwise/elementwise.h"
#include "runtime/ops/random/init.h"

namespace trireme {

void ParamStore::allocate(Device& device, const StoreOptions& options) {
  using Form = ParamArena::Form;
  options_ = options;
  options_.zero.vectors_apart = options.zero.stage >= 1 && rounded();
  device_ = &device;
  layout_->lay_out(options_.zero, options.bucket_elements);
  level_of_.assign(layout_->specs().size(), 0);
  const MemoryScope parameters(MemoryRole::parameters);
  masters_ = ParamArena(
      device, *layout_,
      {.what = "parameters", .form = Form::kept, .buffers = sliced_masters() ? param_buffers : 0});
  // Sliced masters keep whole copies only of frozen weights: slices beside them have no use, and
  // few weights are trained if most are frozen.
  const bool keeps_frozen = layout_->trained_elements() < layout_->elements();
  const Form copies = !rounded()          ? Form::buffers_only
                      : !sliced_masters() ? Form::whole
                      : keeps_frozen      ? Form::slices
                                          : Form::buffers_only;
  compute_ = ParamArena(device, *layout_,
                        {.what = "compute copies",
                         .dtype = options.compute,
                         .form = copies,
                         .buffers = rounded() && sliced_masters() ? param_buffers : 0});
  const MemoryScope gradients(MemoryRole::gradients);
  const bool sliced = options.zero.stage >= 2;
  gradients_ = ParamArena(device, *layout_,
                          {.what = "gradients",
                           .form = sliced ? Form::slices : Form::whole,
                           .levels = options.training ? options.gradient_levels : 0,
                           .buffers = options.training && sliced ? gradient_buffers : 0,
                           .frozen = false});
  std::int64_t widest = 0;
  for (const ParamSpec& spec : layout_->specs())
    if (spec.kind == ParamKind::frozen && !spec.matrix)
      widest = std::max(widest, stored_shape(spec, layout_->split(spec)).count());
  if (options.training)
    unread_ =
        Buffer(device, 2 * static_cast<std::size_t>(widest) * sizeof(float), MemoryKind::device);
  const bool experts = options.leaves.experts;
  if (!options.training || (experts && layout_->expert_elements() == 0)) options_.leaves = {};
  leaves_.clear();
  for (int leaf = 1; leaf < options_.leaves.count; ++leaf)
    leaves_.emplace_back(device, *layout_,
                         ParamArena::Options{.what = "gradients of leaves",
                                             .form = sliced    ? Form::buffers_only
                                                     : experts ? Form::experts
                                                               : Form::whole,
                                             .levels = experts ? options.gradient_levels : 1,
                                             .buffers = sliced ? gradient_buffers : 0,
                                             .frozen = false});
}

// Initialises the part of a parameter that this rank keeps.
void ParamStore::initialize_param(Stream& stream, ParamId id, std::uint64_t seed) {
  const ParamSpec& spec = layout_->spec(id);
  const std::string& identity = spec.identity();
  const std::uint64_t key = stable_id(identity.data(), identity.size());
  const auto fill = [&](const Tensor& part, std::int64_t logical) {
    const Init& init = spec.init;
    switch (init.kind) {
      case Init::Kind::constant:
        return ops::fill_constant(stream, part, init.a);
      case Init::Kind::sinusoid:
        return ops::fill_sinusoid(stream, part, logical, spec.shape[1], init.a);
      case Init::Kind::normal:
        return ops::fill_normal(stream, part, seed, key, logical, init.a, init.b);
      case Init::Kind::uniform:
        return ops::fill_uniform(stream, part, seed, key, logical, init.a, init.b);
    }
  };
  const Bucket& bucket = layout_->bucket(id);
  const Tensor values = masters_.kept(bucket);
  layout_->for_each_owned_run(id, layout_->kept(bucket),
                              [&](std::int64_t place, std::int64_t logical, std::int64_t count) {
                                fill(values.range(place, count), logical);
                              });
}

void ParamStore::initialize(Stream& stream, std::uint64_t seed) {
  ops::fill_constant(stream, masters_.held(), 0.0F);  // including padding
  for (const ParamId id : layout_->order())
    initialize_param(stream, id, seed);
  refresh_compute(stream);
}

void ParamStore::refresh_compute(Stream& stream) {
  if (!rounded()) return;
  for (const Bucket& bucket : layout_->buckets()) {
    if (!layout_->keeps_slice(bucket)) {
      if (bucket.kind != ParamKind::statistic)
        ops::cast(stream, compute_.bucket(bucket), masters_.bucket(bucket));
    } else if (options_.zero.stage < 3) {
      refresh_own(stream, bucket);
      slices_missing_ = true;
    }
  }
}

void ParamStore::refresh_compute(Stream& stream, const Bucket& bucket) {
  if (rounded() && bucket.kind == ParamKind::weight && !bucket.matrices)
    ops::cast(stream, compute_.bucket(bucket), masters_.bucket(bucket));
}

Tensor ParamStore::refresh_own(Stream& stream, const Bucket& bucket) {
  const Tensor own = compute_.bucket(bucket).range(layout_->slice_first(bucket) - bucket.first,
                                                   layout_->slice_count(bucket));
  ops::cast(stream, own, masters_.owned(bucket));
  return own;
}

Tensor ParamStore::gradient(ParamId id, int source) const {
  TRIREME_EXPECTS(source >= 0 && source < sources(id), "{} has {} gradients, not {}",
                  layout_->spec(id).name, sources(id), source + 1);
  if (const ParamSpec& spec = layout_->spec(id); spec.kind == ParamKind::frozen) {
    TRIREME_EXPECTS(!spec.matrix, "the gradient of {}, which is frozen", spec.name);
    // Scale and shift of a norm, declared together, are apart.
    const Shape shape = stored_shape(spec, layout_->split(spec));
    const auto half = static_cast<std::int64_t>(unread_.bytes() / sizeof(float) / 2);
    return unread_.view(DType::f32, Shape{2 * half})
        .range(id.index % 2 * half, shape.count())
        .reshaped(shape);
  }
  if (block_ > 0 && leaves().count > 1 && !leaves().experts &&
      layout_->spec(id).kind == ParamKind::weight)
    return gradients_of(block_).param(id);
  return gradients_of(source).param(id, level_of_[layout_->at(id)]);
}

Tensor ParamStore::place_gradients(int unit, int buffer) {
  for (ParamArena& arena : leaves_)
    arena.place(unit, buffer);
  return gradients_.place(unit, buffer);
}

std::size_t ParamStore::gradient_bytes() const {
  std::size_t sum = gradients_.bytes() + unread_.bytes();
  for (const ParamArena& arena : leaves_)
    sum += arena.bytes();
  return sum;
}

void ParamStore::zero_gradients(Stream& stream) const {
  for (int leaf = 0; leaf < leaves().count; ++leaf)
    gradients_of(leaf).zero(stream);
}

Tensor ParamStore::compute(ParamId id) const {
  return rounded() && layout_->spec(id).matrix ? compute_.param(id) : master(id);
}

Tensor ParamStore::added(ParamId id) const {
  return rounded() && device_->type() == DeviceType::cuda ? compute_.param(id) : compute(id);
}

void ParamStore::select_level(UnitRange units, ParamKind kind, int level) {
  for (const ParamId id : layout_->order()) {
    if (units.contains(layout_->unit_of(id)) && layout_->spec(id).kind == kind)
      level_of_[layout_->at(id)] = level;
  }
}

Tensor ParamStore::place_params(int unit, int buffer) {
  if (rounded()) compute_.place(unit, buffer);
  return masters_.place(unit, buffer);
}

}  // namespace trireme
