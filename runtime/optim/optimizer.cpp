// SPDX-License-Identifier: Apache-2.0
#include "runtime/optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "runtime/comm/comm_label.h"
#include "runtime/ops/experts/router.h"
#include "runtime/ops/update/exact_sum.h"

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

Optimizer::Optimizer(Device& device, ParamStore& params, const OptimizerConfig& config,
                     float clip_norm, const OptimizerRanks& ranks,
                     std::optional<ops::LossScaleOptions> loss_scale)
    : device_(device),
      params_(params),
      config_(config),
      traits_(traits_of(config.name)),
      clip_norm_(clip_norm),
      exact_norms_(ranks.exact) {
  const auto join = [&](std::optional<TensorGroup>& group, Communicator* communicator) {
    if (communicator == nullptr || communicator->size() == 1) return;
    group.emplace(device, *communicator, *ranks.comm, ranks.stalls);
  };
  for (const OwnedRun& run : params.layout().owned_runs())
    TRIREME_EXPECTS(traits_.groups || run.rate == 1.0F,
                    "{} has its own learning rate, which {} does not support",
                    params.layout().spec(run.param).name, traits_.name);
  join(slices_, ranks.slices);
  join(tensor_, ranks.tensor);
  join(model_, ranks.model);
  const MemoryScope scope(MemoryRole::optimizer);
  if (loss_scale) scaler_.emplace(device, *loss_scale);
  const auto stream = device.make_stream(StreamKind::compute);  // its end waits for all
  // A stage with all weights frozen has no moments, but the optimizer still does.
  const std::size_t state =
      std::max(static_cast<std::size_t>(params.layout().owned_trained_elements()), std::size_t{1}) *
      sizeof(float);
  const int moments = config.moments();
  if (moments > 0) first_ = zeroed(device, stream.get(), state);
  if (moments > 1) second_ = zeroed(device, stream.get(), state);
  if (traits_.factored) {
    const ParamLayout& layout = params.layout();
    factored_.emplace(device, *stream, params, ranks.chain.empty() ? layout.specs() : ranks.chain,
                      exact_norms_);
  }
  if (traits_.trust_ratios) ratios_.emplace(device, params.layout());
  if (traits_.orthogonal)
    muon_.emplace(device, params, slices_ ? &*slices_ : nullptr, tensor_ ? &*tensor_ : nullptr);
  scalars_ = zeroed(device, stream.get(), scalar_count * sizeof(float));
  scalars_host_ = Buffer(device, 2 * scalar_count * sizeof(float), MemoryKind::host);
  norm_ = zeroed(device, stream.get(), sizeof(float));
  sum_ = zeroed(device, stream.get(), sizeof(double));
  exact_ = zeroed(device, stream.get(), ops::exact_sum_words * sizeof(std::uint64_t));
  make_tables(*stream);
}

void Optimizer::make_tables(Stream& stream) {
  const ParamLayout& layout = params_.layout();
  std::vector<ops::UpdateRun> weights, hidden;
  std::vector<ops::SquaresRun> counted;
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
  for (const OwnedRun& run : layout.owned_runs()) {
    if (run.kind == ParamKind::weight && run.counted)
      counted.push_back({.values = tensors_of(run).gradient});
  }
  weights_ = ops::UpdateTable(stream, weights);
  hidden_ = ops::UpdateTable(stream, hidden);
  counted_ = ops::SquaresTable(stream, counted, 1, exact_norms_);
  if (ratios_) ratios_->measure(stream, trusted, exact_norms_);
  if (factored_) ratios_->count_elements(stream);
}

Tensor Optimizer::gradient_norm() const {
  return norm_.view(DType::f32, Shape{1});
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

void Optimizer::step(Stream& stream, std::int64_t step) {
  measure(stream, step);
  update(stream);
}

void Optimizer::measure(Stream& stream, std::int64_t step, const Tensor& sums, double targets) {
  device_.copy(stream, scalars_.data(), staged(step), scalars_.bytes());
  sum_squares(stream);
  ops::clip_scale(
      stream, scalars(), gradient_norm(), sum_.view(DType::f64, Shape{1}), clip_norm_,
      {.loss_scale = scaler_ ? scaler_->scale() : Tensor{}, .sums = sums, .targets = targets});
  if (scaler_) scaler_->update(stream, scalars());
}

void Optimizer::update(Stream& stream) {
  const ops::UpdateOptions options = update_options(config_);
  const auto update = [&](OptimizerKind kind, ops::UpdatePart part, const ops::UpdateTable& table) {
    ops::update(stream, kind, part, table, scalars(), options);
  };
  if (factored_) {
    factored_->sum(stream);
    const ScopedCommLabel label("factored moments");
    add_up(stream, factored_->sums());
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

void Optimizer::sum_squares(Stream& stream) {
  const Tensor sum = sum_.view(DType::f64, Shape{1});
  const Tensor exact = exact_.view(DType::u64, Shape{ops::exact_sum_words});
  if (exact_norms_) {
    ops::sum_squares_exact(stream, exact, counted_);
  } else {
    ops::sum_squares(stream, sum, counted_);
  }
  const Tensor& total = exact_norms_ ? exact : sum;
  const ScopedCommLabel label("gradient norm");
  add_up(stream, total);
  if (exact_norms_) ops::exact_sum_values(stream, sum, exact);
}

void Optimizer::add_up(Stream& stream, const Tensor& sums) const {
  if (slices_) slices_->all_reduce(stream, sums);
  if (model_) model_->all_reduce(stream, sums);
}

Tensor Optimizer::moments(const Buffer& buffer) const {
  return buffer.data() == nullptr
             ? Tensor{}
             : buffer.view(DType::f32, Shape{params_.layout().owned_trained_elements()});
}

ops::UpdateRun Optimizer::tensors_of(const OwnedRun& run) const {
  const Bucket& bucket = params_.layout().buckets()[static_cast<std::size_t>(run.bucket)];
  const auto part = [&](const Tensor& all, std::int64_t first) {
    return all.empty() ? all : all.range(first + run.first, run.count);
  };
  return {.parameter = part(params_.masters().owned(bucket), 0),
          .gradient = part(params_.gradients().owned(bucket), 0),
          .compute = part(params_.compute_copies().owned(bucket), 0),
          .first = part(moments(first_), bucket.owned),
          .second = part(moments(second_), bucket.owned),
          .decay = run.decay,
          .rate = run.rate};
}

void Optimizer::measure_tensors(Stream& stream) {
  ratios_->sum(stream);
  const ScopedCommLabel label("trust ratios");
  if (slices_) slices_->all_reduce(stream, ratios_->sums());
  if (tensor_) tensor_->all_reduce(stream, ratios_->sums());
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

// Several ZeRO groups of data ranks that share experts hold the same dense parameters and other
// experts: then all of them count together (ParamLayout::repeats).
OptimizerRanks optimizer_ranks(const ProcessMesh& mesh) {
  if (mesh.shape().expert > mesh.shape().shard)
    return {.slices = &mesh.experts(), .model = &mesh.pipeline()};
  return {.slices = &mesh.zero(), .tensor = &mesh.tensor(), .model = &mesh.model()};
}

LossScaler::LossScaler(Device& device, const ops::LossScaleOptions& options)
    : options_(options),
      state_(device, ops::LossScaleState::count * sizeof(float), MemoryKind::device) {
  const Buffer host(device, state_.bytes(), MemoryKind::host);
  auto* const values = reinterpret_cast<float*>(host.data());
  values[ops::LossScaleState::scale] = options.initial;
  values[ops::LossScaleState::good_steps] = 0.0F;
  values[ops::LossScaleState::skipped_steps] = 0.0F;
  const auto stream = device.make_stream(StreamKind::compute);
  device.copy(*stream, state_.data(), host.data(),
              state_.bytes());  // the stream's destructor waits for it
}

Tensor LossScaler::state() const {
  return state_.view(DType::f32, Shape{ops::LossScaleState::count});
}

void LossScaler::update(Stream& stream, const Tensor& scalars) {
  ops::update_loss_scale(stream, state(), scalars, options_);
}

}  // namespace trireme
