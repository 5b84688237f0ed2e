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
  options_.zero.vectors_apart = options.zero.stage >= 3 && rounded();
  device_ = &device;
  layout_->lay_out(options_.zero, options.bucket_elements);
  level_of_.assign(layout_->specs().size(), 0);
  const MemoryScope parameters(MemoryRole::parameters);
  masters_ = ParamArena(device, *layout_,
                        {.what = "parameters",
                         .form = sliced_masters() ? Form::slices : Form::whole,
                         .buffers = sliced_masters() ? param_buffers : 0});
  // Of sliced masters only what is frozen has whole copies: own slices beside them are of no use,
  // and there are few weights where most are frozen.
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
}

void ParamStore::initialize_param(Stream& stream, ParamId id, std::uint64_t seed) {
  const ParamSpec& spec = layout_->spec(id);
  const Tensor values = master(id);
  const std::string& identity = spec.identity();
  const std::uint64_t key = stable_id(identity.data(), identity.size());
  if (spec.init.kind == Init::Kind::constant)
    return ops::fill_constant(stream, values, spec.init.a);
  if (spec.init.kind == Init::Kind::sinusoid) {
    TRIREME_EXPECTS(!is_split(spec, layout_->split()),
                    "parameter {} starts as sine waves and is split", spec.name);
    return ops::fill_sinusoid(stream, values, spec.init.a);
  }
  const auto fill = spec.init.kind == Init::Kind::normal ? ops::fill_normal : ops::fill_uniform;
  for_each_run(
      spec, layout_->split(), [&](std::int64_t stored, std::int64_t logical, std::int64_t count) {
        fill(stream, values.range(stored, count), seed, key, logical, spec.init.a, spec.init.b);
      });
}

void ParamStore::initialize(Stream& stream, std::uint64_t seed) {
  if (!sliced_masters()) {
    ops::fill_constant(stream, masters_.whole(), 0.0F);  // padding included
    for (const ParamId id : layout_->order())
      initialize_param(stream, id, seed);
    refresh_compute(stream);
    return;
  }
  // Whole units in turn, of which only the own slices stay.
  for (int unit = 0; unit < std::max(layout_->unit_count(), 1); ++unit) {
    const Tensor weights = place_params(unit, 0);
    if (weights.count() > 0) ops::fill_constant(stream, weights, 0.0F);
    for (const ParamId id : layout_->order()) {
      if (layout_->unit_of(id) == unit) initialize_param(stream, id, seed);
    }
    for (const Bucket& bucket : layout_->buckets()) {
      if (bucket.kind != ParamKind::weight || !bucket.units.contains(unit)) continue;
      const Tensor own = masters_.owned(bucket);
      const std::int64_t skipped = layout_->slice_first(bucket) - bucket.first;
      device_->copy(stream, own.data, masters_.bucket(bucket).range(skipped, own.count()).data,
                    own.bytes());
    }
  }
  refresh_compute(stream);
}

void ParamStore::refresh_compute(Stream& stream) {
  if (!rounded()) return;
  if (!sliced_masters()) return ops::cast(stream, compute_.whole(), masters_.whole());
  for (const Bucket& bucket : layout_->buckets()) {
    if (bucket.kind == ParamKind::frozen)
      ops::cast(stream, compute_.bucket(bucket), masters_.bucket(bucket));
  }
}

void ParamStore::refresh_compute(Stream& stream, const Bucket& bucket) {
  if (rounded() && bucket.kind == ParamKind::weight)
    ops::cast(stream, compute_.bucket(bucket), masters_.bucket(bucket));
}

Tensor ParamStore::refresh_own(Stream& stream, const Bucket& bucket) {
  const Tensor own = compute_.bucket(bucket).range(layout_->slice_first(bucket) - bucket.first,
                                                   layout_->slice_count(bucket));
  ops::cast(stream, own, masters_.owned(bucket));
  return own;
}

Tensor ParamStore::gradient(ParamId id) const {
  return gradients_.param(id, level_of_[layout_->at(id)]);
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
