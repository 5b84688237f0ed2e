// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/meters/stage_probe.h"

#include <algorithm>
#include <utility>

namespace trireme {
namespace {

Tensor first_rows(const Tensor& values, std::int64_t rows) {
  if (values.empty()) return values;
  std::vector<std::int64_t> extents(values.shape.extents().begin(), values.shape.extents().end());
  TRIREME_EXPECTS(!extents.empty() && extents[0] >= rows, "{} rows of {}", rows,
                  values.shape.to_string());
  extents[0] = rows;
  return {values.data, values.dtype, Shape(std::span<const std::int64_t>(extents))};
}

}  // namespace

PassTimes usual(std::span<const PassTimes> steps) {
  const auto quartile = [&](double PassTimes::*part) {
    std::vector<double> values;
    for (const PassTimes& times : steps)
      values.push_back(times.*part);
    const auto at = values.begin() + std::ssize(values) / 4;
    std::ranges::nth_element(values, at);
    return *at;
  };
  if (steps.empty()) return {};
  return {.forward = quartile(&PassTimes::forward),
          .backward = quartile(&PassTimes::backward),
          .backward_weight = quartile(&PassTimes::backward_weight)};
}

LastPass last_pass_of(const Model& model, Stream& compute, const Batch& batch, int micro_batch) {
  LastPass last{.batch = batch};
  for (int chunk = 0; chunk < model.chunk_count(); ++chunk) {
    const Context context =
        model.context(compute, last.batch, /*training=*/true, chunk, micro_batch);
    last.inputs.push_back(model.input(context));
    last.gradients.push_back(model.output_gradient(context));
  }
  return last;
}

Batch first_samples(const Batch& batch, std::int64_t samples) {
  return {.inputs = first_rows(batch.inputs, samples),
          .targets = first_rows(batch.targets, samples),
          .sample_ids = first_rows(batch.sample_ids, samples),
          .epochs = first_rows(batch.epochs, samples),
          .weights = first_rows(batch.weights, samples),
          .document_starts = first_rows(batch.document_starts, samples)};
}

StageProbe::StageProbe(std::unique_ptr<Model> model, const ScheduleShape& shape, int stage,
                       Stream& compute, const TensorGroup& tensor, const LastPass& last)
    : model_(std::move(model)),
      compute_(compute),
      tensor_(tensor),
      last_(last),
      rng_(compute.device(), 2 * sizeof(std::uint64_t), MemoryKind::device),
      weights_changed_(static_cast<std::size_t>(shape.chunks), true),
      micro_batches_(shape.micro_batches) {
  Device& device = compute.device();
  for (const Action& action : stage_actions(shape, stage)) {
    if (is_compute(action.kind))
      computations_.push_back(
          {action, device.make_event(EventKind::timed), device.make_event(EventKind::timed)});
  }
  device.fill_zero(compute, rng_.data(), rng_.bytes());
}

Context StageProbe::context(const Action& action) {
  Context context =
      model_->context(compute_, last_.batch, /*training=*/true, action.chunk, action.micro_batch);
  context.tensor = &tensor_;
  context.rng = rng_.view(DType::u64, Shape{2});
  context.weights_changed = action.kind == ActionKind::forward &&
                            weights_changed_[static_cast<std::size_t>(action.chunk)];
  return context;
}

// As a message would have come: the same for each micro-batch.
void StageProbe::receive(const Action& action) {
  const auto copy = [&](const Tensor& to, const Tensor& from) {
    if (to.empty()) return;
    TRIREME_EXPECTS(to.bytes() <= from.bytes(), "{} from {}", to.shape.to_string(),
                    from.shape.to_string());
    compute_.device().copy(compute_, to.data, from.data, to.bytes());
  };
  const auto chunk = static_cast<std::size_t>(action.chunk);
  const Context here = context(action);
  if (action.kind == ActionKind::forward) copy(model_->input(here), last_.inputs[chunk]);
  if (action.kind == ActionKind::backward)
    copy(model_->output_gradient(here), last_.gradients[chunk]);
}

void StageProbe::compute(const Action& action) {
  const Context here = context(action);
  if (action.kind == ActionKind::forward) {
    model_->forward(here);
    weights_changed_[static_cast<std::size_t>(action.chunk)] = false;
  } else if (action.kind == ActionKind::backward) {
    model_->backward(here);
  } else {
    model_->backward_weight(here);
  }
}

PassTimes StageProbe::step() {
  weights_changed_.assign(weights_changed_.size(), true);
  for (const auto& [action, begin, end] : computations_) {
    receive(action);
    compute_.record(*begin);
    compute(action);
    compute_.record(*end);
  }
  compute_.synchronize();
  PassTimes times;
  for (const auto& [action, begin, end] : computations_) {
    double& sum = action.kind == ActionKind::forward    ? times.forward
                  : action.kind == ActionKind::backward ? times.backward
                                                        : times.backward_weight;
    sum += end->milliseconds_since(*begin) / micro_batches_;
  }
  return times;
}

}  // namespace trireme
