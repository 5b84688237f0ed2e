// SPDX-License-Identifier: Apache-2.0
#include "runtime/optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "runtime/comm/comm_label.h"
#include "runtime/ops/experts/router.h"

namespace trireme {
namespace {

constexpr auto scalar_count = static_cast<std::int64_t>(ops::StepScalars::count);

Buffer zeroed(Device& device, Stream* stream, std::size_t bytes) {
  Buffer buffer(device, bytes, MemoryKind::device);
  if (stream != nullptr) device.fill_zero(*stream, buffer.data(), bytes);
  return buffer;
}

ops::UpdateOptions update_options(const OptimizerConfig& config) {
  return {.beta1 = static_cast<float>(config.betas[0]),
          .beta2 = static_cast<float>(config.betas[1]),
          .epsilon = static_cast<float>(config.epsilon),
          .momentum = static_cast<float>(config.momentum),
          .nesterov = config.nesterov,
          .weight_decay = static_cast<float>(config.weight_decay)};
}

}  // namespace

Optimizer::Optimizer(Device& device, ParamStore& params, const OptimizerOptions& options)
    : device_(device),
      params_(params),
      config_(options.config),
      traits_(traits_of(config_.name)),
      transforms_(options.transforms),
      groups_(options.groups) {
  for (const OwnedRun& run : params.layout().owned_runs())
    TRIREME_EXPECTS(traits_.groups || run.rate == 1.0F,
                    "{} has its own learning rate, which {} does not support",
                    params.layout().spec(run.param).name, traits_.name);
  const MemoryScope scope(MemoryRole::optimizer);
  const auto stream = device.make_stream(StreamKind::compute);  // its end waits for all
  // A stage with all weights frozen has no moments, but the optimizer still does.
  const std::size_t state =
      std::max(static_cast<std::size_t>(params.layout().owned_trained_elements()), std::size_t{1}) *
      sizeof(float);
  const int moments = config_.moments();
  if (moments > 0) first_ = zeroed(device, stream.get(), state);
  if (moments > 1) second_ = zeroed(device, stream.get(), state);
  if (traits_.factored) {
    const ParamLayout& layout = params.layout();
    factored_.emplace(device, *stream, params,
                      options.chain.empty() ? layout.specs() : options.chain, options.exact);
  }
  if (traits_.trust_ratios) ratios_.emplace(device, params.layout());
  if (traits_.orthogonal)
    muon_.emplace(device, params, groups_.slices ? &*groups_.slices : nullptr,
                  groups_.tensor ? &*groups_.tensor : nullptr);
  scalars_ = zeroed(device, stream.get(), scalar_count * sizeof(float));
  scalars_host_ = Buffer(device, 2 * scalar_count * sizeof(float), MemoryKind::host);
  make_tables(*stream, options.exact);
}

void Optimizer::make_tables(Stream& stream, bool exact) {
  const ParamLayout& layout = params_.layout();
  std::vector<ops::UpdateRun> weights, hidden;
  std::vector<TrustRatios::Run> trusted;
  for (const OwnedRun& run : ratios_ || muon_ ? layout.owned_params() : layout.owned_runs()) {
    if (run.kind == ParamKind::statistic) {
      statistics_.push_back(run);
      continue;
    }
    if (!ratios_) {
      (muon_ && layout.spec(run.param).hidden ? hidden : weights).push_back(tensors_of(run));
      continue;
    }
    for (const TensorRun& part : layout.tensors_in(run)) {
      const std::int64_t number = ratios_->number(run.param, part.tensor);
      weights.push_back(tensors_of(part.run));
      weights.back().ratio = ratios_->ratio(number);
      // Biases and norms have ratio 1, as in the papers of LAMB and LARS.
      if ((run.decay > 0 || factored_) && run.counted_in_tensor)
        trusted.push_back({number, weights.back().parameter, weights.back().gradient});
    }
  }
  weights_ = ops::UpdateTable(stream, weights);
  hidden_ = ops::UpdateTable(stream, hidden);
  if (ratios_) ratios_->measure(stream, trusted, exact);
  if (factored_) ratios_->count_elements(stream);
}

float* Optimizer::staged(std::int64_t step) const {
  return reinterpret_cast<float*>(scalars_host_.data()) + step % 2 * scalar_count;
}

void Optimizer::prepare(std::int64_t step, double learning_rate) {
  float* const values = staged(step);
  values[ops::StepScalars::learning_rate] = static_cast<float>(learning_rate);
  values[ops::StepScalars::gradient_scale] = 1.0F;
  const auto t = static_cast<double>(step + 1);
  const auto correction = [&](double beta) {
    const auto rounded = static_cast<float>(beta);  // rounded as in the kernels
    return traits_.bias_correction ? static_cast<float>(1.0 - std::pow(rounded, t)) : 1.0F;
  };
  values[ops::StepScalars::bias_correction1] = correction(config_.betas[0]);
  values[ops::StepScalars::bias_correction2] =
      traits_.factored ? static_cast<float>(std::pow(t, -0.8)) : correction(config_.betas[1]);
}

Tensor Optimizer::scalars() const {
  return scalars_.view(DType::f32, Shape{scalar_count});
}

void Optimizer::step(Stream& stream, GradientStep step) {
  device_.copy(stream, scalars_.data(), staged(step.number), scalars_.bytes());
  step.scalars = scalars();
  for (GradientTransform* const transform : transforms_)
    transform->apply(stream, params_, step);
  update(stream);
}

void Optimizer::update(Stream& stream) {
  const ops::UpdateOptions options = update_options(config_);
  const auto update = [&](OptimizerKind kind, ops::UpdatePart part, const ops::UpdateTable& table) {
    ops::update(stream, kind, part, table, scalars(), options);
  };
  if (factored_) {
    factored_->sum(stream);
    const ScopedCommLabel label("factored moments");
    groups_.add_up(stream, factored_->sums());
    factored_->update(stream, scalars());
  }
  const ops::UpdateTable& own = muon_ ? hidden_ : weights_;
  if (traits_.direction)
    update(config_.name, ops::UpdatePart::direction, factored_ ? factored_->rows() : own);
  if (ratios_) measure_tensors(stream);
  if (muon_) {
    muon_->orthogonalize(stream);
    update(OptimizerKind::adamw, ops::UpdatePart::weights, weights_);
  }
  update(config_.name, ops::UpdatePart::weights, own);
  for (const OwnedRun& run : statistics_) {
    const ops::UpdateRun at = tensors_of(run);
    if (run.balance_rate > 0) {
      // Without the padding behind the parameter, which would count as experts.
      const std::int64_t experts = params_.layout().spec(run.param).shape.count();
      ops::balance_bias(stream, at.parameter.range(0, experts), at.gradient.range(0, experts),
                        run.balance_rate, scalars());
    } else {
      ops::exponential_average(stream, at.parameter, at.gradient, run.statistic_decay, scalars());
    }
  }
}

Tensor Optimizer::moments(const Buffer& buffer) const {
  return buffer.data() == nullptr
             ? Tensor{}
             : buffer.view(DType::f32, Shape{params_.layout().owned_trained_elements()});
}

ops::UpdateRun Optimizer::tensors_of(const OwnedRun& run) const {
  const auto moments_of = [&](const Buffer& buffer) {
    const Tensor all = moments(buffer);
    return all.empty() ? all
                       : all.range(params_.layout().bucket(run.param).owned + run.first, run.count);
  };
  return {.parameter = params_.masters().owned(run),
          .gradient = params_.gradients().owned(run),
          .compute = params_.compute_copies().owned(run),
          .first = moments_of(first_),
          .second = moments_of(second_),
          .decay = run.decay,
          .rate = run.rate};
}

void Optimizer::measure_tensors(Stream& stream) {
  ratios_->sum(stream);
  const ScopedCommLabel label("trust ratios");
  if (groups_.slices) groups_.slices->all_reduce(stream, ratios_->sums());
  if (groups_.tensor) groups_.tensor->all_reduce(stream, ratios_->sums());
  ops::TrustOptions trust{};
  if (traits_.factored) {
    trust = {.scale_parameter = config_.scale_parameter};
  } else if (!traits_.direction) {  // LARS scales gradients
    trust = {.coefficient = static_cast<float>(config_.trust_coefficient),
             .weight_decay = static_cast<float>(config_.weight_decay),
             .gradients = true};
  }
  ratios_->finish(stream, scalars(), trust);
}

}  // namespace trireme
