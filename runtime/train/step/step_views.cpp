// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/step/step_views.h"

#include <algorithm>

#include "runtime/train/digests/weight_digests.h"

namespace trireme {

// Planted faults come before the views that must find them.
StepViews::StepViews(const Model& model, ObserverOptions options)
    : model_(model), options_(std::move(options)), known_(options_.observers) {
  if (StepObserver* const faults = planted_faults()) known_.insert(known_.begin(), faults);
}

bool StepViews::wanted(std::int64_t step) const {
  return std::ranges::any_of(known_, [&](const auto* one) { return one->wants(step + 1); });
}

void StepViews::begin_step(std::int64_t step) {
  step_ = step;
  micro_batch_ = -1;
  lookers_.clear();
  for (StepObserver* const one : known_)
    if (one->wants(step + 1)) lookers_.push_back(one);
}

bool StepViews::look_at(Seen what) const {
  return std::ranges::any_of(lookers_, [&](const auto* one) { return one->looks_at(what); });
}

void StepViews::show(Stream& stream, const Observed& what, const Tensor& values) {
  if (values.data == nullptr || values.empty()) return;
  Observed complete = what;
  complete.step = step_ + 1;
  for (StepObserver* const one : lookers_)
    if (one->looks_at(what.what)) one->see(stream, complete, values);
}

int StepViews::layer_of(int unit) const {
  for (int chunk = 0; chunk < model_.chunk_count(); ++chunk) {
    const UnitRange units = model_.units(chunk);
    if (units.contains(unit) && chunk < static_cast<int>(options_.first_layers.size()))
      return options_.first_layers[static_cast<std::size_t>(chunk)] + unit - units.first;
  }
  return unit;
}

void StepViews::forward_begins(const Context& context) {
  const int first = layer_of(model_.units(context.chunk).first);
  const Observed batch{.what = Seen::batch, .micro_batch = micro_batch_};
  if (first == 0) {
    Observed inputs = batch;
    inputs.name = "inputs";
    show(context.stream, inputs, context.batch.inputs);
  } else {
    show(context.stream,
         {.what = Seen::activation,
          .micro_batch = micro_batch_,
          .layer = first - 1,
          .name = "activation",
          .received = true},
         model_.input(context));
  }
  if (context.losses.empty()) return;
  Observed targets = batch;
  targets.name = "targets";
  show(context.stream, targets, context.batch.targets);
}

void StepViews::backward_begins(const Context& context) {
  const Tensor received = model_.output_gradient(context);
  show(context.stream,
       {.what = Seen::gradient,
        .micro_batch = micro_batch_,
        .layer = layer_of(model_.units(context.chunk).last - 1) + 1,
        .name = "gradient",
        .received = true},
       received);
}

void StepViews::layer_done(Seen what, const Context& context, int index, const std::string& name,
                           const Tensor& values) {
  const bool head = what == Seen::activation && values.empty() && !context.losses.empty();
  show(context.stream,
       {.what = what,
        .micro_batch = micro_batch_,
        .layer = layer_of(model_.units(context.chunk).first + index),
        .name = name},
       head ? context.losses : values);
}

void StepViews::show_parameter(Stream& stream, Seen what, ParamId id,
                               const ParamLayout::Range& range, const Tensor& values,
                               int micro_batch) {
  const ParamLayout& layout = model_.params().layout();
  const ParamSpec& spec = layout.spec(id);
  const Blocking blocking = blocking_of(spec, layout.split(spec));
  layout.for_each_owned_block(
      id, range,
      [&](std::int64_t place, std::int64_t block, std::int64_t first, std::int64_t count) {
        for (const DigestPart& part : digest_parts(blocking, block, first, count))
          show(stream,
               {.what = what,
                .micro_batch = micro_batch,
                .layer = layer_of(layout.unit_of(id)),
                .name = spec.name,
                .base = static_cast<std::int64_t>(part.places.base),
                .width = part.places.width,
                .stride = part.places.stride,
                .first = part.places.first},
               values.range(place + part.offset, part.count));
      });
}

void StepViews::parameters(Stream& stream, Seen what) {
  if (!look_at(what)) return;
  const ParamStore& params = model_.params();
  const ParamArena& arena = what == Seen::reduced_gradient ? params.gradients() : params.masters();
  for (const OwnedRun& run : params.layout().owned_params()) {
    const std::int64_t slice = params.layout().slice_first(params.layout().bucket(run.param));
    show_parameter(stream, what, run.param, {slice + run.first, run.count}, arena.owned(run),
                   /*micro_batch=*/-1);
  }
}

void StepViews::add_micro_batch(Stream& compute, int bucket, const Tensor& gradients, int source) {
  const ParamLayout& layout = model_.params().layout();
  const Bucket& place = layout.buckets()[static_cast<std::size_t>(bucket)];
  for (const ParamId id : layout.order()) {
    if (layout.bucket_of(id) != bucket) continue;
    show_parameter(compute, Seen::parameter_gradient, id, {place.first, place.count}, gradients,
                   place.expert ? of_sources_[static_cast<std::size_t>(source)] : micro_batch_);
  }
}

}  // namespace trireme
