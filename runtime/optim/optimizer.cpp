// SPDX-License-Identifier: Apache-2.0
#include "runtime/optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "runtime/comm/comm_label.h"
#include "runtime/ops/update/exact_sum.h"

namespace trireme {
namespace {

constexpr auto scalar_count = static_cast<std::int64_t>(ops::StepScalars::count);

Buffer zeroed(Device& device, Stream* stream, std::size_t bytes) {
  Buffer buffer(device, bytes, MemoryKind::device);
  if (stream != nullptr) device.fill_zero(*stream, buffer.data(), bytes);
  return buffer;
}

template <typename Options>
Options decaying(Options options, bool decay) {
  if (!decay) options.weight_decay = 0;
  return options;
}

// The decay stays that of the learning rate, whatever a parameter's own.
template <typename Options>
Options of_run(Options options, const OwnedRun& run) {
  options = decaying(options, run.decay);
  options.rate = run.rate;
  options.weight_decay /= run.rate;
  return options;
}

}  // namespace

Optimizer::Optimizer(Device& device, ParamStore& params, const OptimizerOptions& options,
                     float clip_norm, const OptimizerRanks& ranks,
                     std::optional<ops::LossScaleOptions> loss_scale)
    : device_(device),
      params_(params),
      options_(options),
      clip_norm_(clip_norm),
      exact_norms_(ranks.exact) {
  const auto join = [&](std::optional<TensorGroup>& group, Communicator* communicator) {
    if (communicator == nullptr || communicator->size() == 1) return;
    group.emplace(device, *communicator, *ranks.comm, ranks.stalls);
  };
  const bool rated = std::holds_alternative<ops::AdamWOptions>(options_) ||
                     std::holds_alternative<ops::LionOptions>(options_);
  for (const OwnedRun& run : params.layout().owned_runs())
    TRIREME_EXPECTS(rated || run.rate == 1.0F,
                    "{} has a learning rate of its own, and another "
                    "optimizer than AdamW or Lion",
                    params.layout().spec(run.param).name);
  join(slices_, ranks.slices);
  join(tensor_, ranks.tensor);
  join(model_, ranks.model);
  const MemoryScope scope(MemoryRole::optimizer);
  if (loss_scale) scaler_.emplace(device, *loss_scale);
  const auto stream = device.make_stream(StreamKind::compute);  // whose end waits for it all
  // A stage whose weights are all frozen has none of them, which is not the same as no moments.
  const std::size_t state =
      std::max(static_cast<std::size_t>(params.layout().owned_trained_elements()), std::size_t{1}) *
      sizeof(float);
  const auto* const sgd = std::get_if<ops::SgdOptions>(&options_);
  const bool lamb = std::holds_alternative<ops::LambOptions>(options_),
             muon = std::holds_alternative<MuonWithAdamW>(options_);
  if (sgd == nullptr || sgd->momentum > 0) first_ = zeroed(device, stream.get(), state);
  if (lamb || muon || std::holds_alternative<ops::AdamWOptions>(options_))
    second_ = zeroed(device, stream.get(), state);
  if (lamb || std::holds_alternative<ops::LarsOptions>(options_))
    ratios_.emplace(device, params.layout(), exact_norms_);
  if (muon) {
    muon_.emplace(device, params, slices_ ? &*slices_ : nullptr, tensor_ ? &*tensor_ : nullptr);
  }
  scalars_ = zeroed(device, stream.get(), scalar_count * sizeof(float));
  scalars_host_ = Buffer(device, 2 * scalar_count * sizeof(float), MemoryKind::host);
  norm_ = zeroed(device, stream.get(), sizeof(float));
  sum_ = zeroed(device, stream.get(), sizeof(double));
  exact_ = zeroed(device, stream.get(), ops::exact_sum_words * sizeof(std::uint64_t));
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
  values[ops::StepScalars::bias_correction1] = 1.0F;
  values[ops::StepScalars::bias_correction2] = 1.0F;
  values[ops::StepScalars::gradient_scale] = 1.0F;
  const auto correct = [&](const auto& options) {
    const auto t = static_cast<double>(step + 1);
    values[ops::StepScalars::bias_correction1] =
        static_cast<float>(1.0 - std::pow(options.beta1, t));
    values[ops::StepScalars::bias_correction2] =
        static_cast<float>(1.0 - std::pow(options.beta2, t));
  };
  if (const auto* const adamw = std::get_if<ops::AdamWOptions>(&options_)) correct(*adamw);
  if (const auto* const lamb = std::get_if<ops::LambOptions>(&options_)) correct(*lamb);
  if (const auto* const muon = std::get_if<MuonWithAdamW>(&options_)) correct(muon->adamw);
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
  if (ratios_) measure_tensors(stream);
  if (muon_) orthogonalize(stream);
  const ParamLayout& layout = params_.layout();
  for (const OwnedRun& run : ratios_ || muon_ ? layout.owned_params() : layout.owned_runs()) {
    if (run.kind == ParamKind::statistic) {
      update_statistic(stream, run);
    } else {
      update_weights(stream, run);
    }
  }
}

void Optimizer::sum_squares(Stream& stream) {
  const Tensor sum = sum_.view(DType::f64, Shape{1});
  const Tensor exact = exact_.view(DType::u64, Shape{ops::exact_sum_words});
  const Tensor& total = exact_norms_ ? exact : sum;
  device_.fill_zero(stream, total.data, total.bytes());
  const auto buckets = params_.layout().buckets();
  for (const OwnedRun& run : params_.layout().owned_runs()) {
    if (run.kind != ParamKind::weight || !run.counted) continue;
    const Tensor gradient = params_.gradients()
                                .owned(buckets[static_cast<std::size_t>(run.bucket)])
                                .range(run.first, run.count);
    if (exact_norms_) {
      ops::accumulate_squares_exact(stream, exact, gradient);
    } else {
      ops::accumulate_squares(stream, sum, gradient);
    }
  }
  const ScopedCommLabel label("gradient norm");
  if (slices_) slices_->all_reduce(stream, total);
  if (model_) model_->all_reduce(stream, total);
  if (exact_norms_) ops::exact_sum_values(stream, sum, exact);
}

Tensor Optimizer::moments(const Buffer& buffer) const {
  return buffer.data() == nullptr
             ? Tensor{}
             : buffer.view(DType::f32, Shape{params_.layout().owned_trained_elements()});
}

Optimizer::Slices Optimizer::slices(const OwnedRun& run) const {
  const Bucket& bucket = params_.layout().buckets()[static_cast<std::size_t>(run.bucket)];
  const auto part = [&](const Tensor& all, std::int64_t first) {
    return all.empty() ? all : all.range(first + run.first, run.count);
  };
  return {.parameter = part(params_.masters().owned(bucket), 0),
          .compute = part(params_.compute_copies().owned(bucket), 0),
          .first = part(moments(first_), bucket.owned),
          .second = part(moments(second_), bucket.owned),
          .gradient = part(params_.gradients().owned(bucket), 0)};
}

void Optimizer::update_statistic(Stream& stream, const OwnedRun& run) {
  const Slices at = slices(run);
  ops::exponential_average(stream, at.parameter, at.gradient, run.statistic_decay, scalars());
}

void Optimizer::measure_tensors(Stream& stream) {
  const auto* const lamb = std::get_if<ops::LambOptions>(&options_);
  ratios_->clear(stream);
  for (const OwnedRun& run : params_.layout().owned_params()) {
    if (run.kind == ParamKind::statistic) continue;
    const Slices at = slices(run);
    if (lamb != nullptr) {
      ops::lamb_direction(stream, at.gradient, at.first, at.second, at.parameter, scalars(),
                          decaying(*lamb, run.decay));
    }
    // Biases and norms step as far as their direction is long, as both papers' recipes have it.
    if (run.decay) ratios_->add(stream, run, at.parameter, at.gradient);
  }
  const ScopedCommLabel label("trust ratios");
  if (slices_) slices_->all_reduce(stream, ratios_->sums());
  if (tensor_) tensor_->all_reduce(stream, ratios_->sums());
  ops::TrustOptions trust{};
  if (const auto* const lars = std::get_if<ops::LarsOptions>(&options_)) {
    trust = {
        .coefficient = lars->coefficient, .weight_decay = lars->weight_decay, .gradients = true};
  }
  ratios_->finish(stream, scalars(), trust);
}

void Optimizer::orthogonalize(Stream& stream) {
  const ParamLayout& layout = params_.layout();
  for (const OwnedRun& run : layout.owned_params()) {
    if (!layout.spec(run.param).hidden) continue;
    const Slices at = slices(run);
    ops::muon_direction(stream, at.gradient, at.first, scalars(),
                        std::get<MuonWithAdamW>(options_).muon);
  }
  muon_->orthogonalize(stream);
}

void Optimizer::update_weights(Stream& stream, const OwnedRun& run) {
  const auto [parameter, compute, first, second, gradient] = slices(run);
  if (const auto* const adamw = std::get_if<ops::AdamWOptions>(&options_)) {
    ops::adamw(stream, parameter, compute, first, second, gradient, scalars(), of_run(*adamw, run));
  } else if (const auto* const lion = std::get_if<ops::LionOptions>(&options_)) {
    ops::lion(stream, parameter, compute, first, gradient, scalars(), of_run(*lion, run));
  } else if (const auto* const sgd = std::get_if<ops::SgdOptions>(&options_)) {
    ops::sgd(stream, parameter, compute, first, gradient, scalars(), decaying(*sgd, run.decay));
  } else if (std::holds_alternative<ops::LambOptions>(options_)) {
    ops::lamb(stream, parameter, compute, gradient, ratios_->ratio(run.param), scalars());
  } else if (const auto* const lars = std::get_if<ops::LarsOptions>(&options_)) {
    ops::lars(stream, parameter, compute, first, gradient, ratios_->ratio(run.param), scalars(),
              decaying(*lars, run.decay));
  } else if (const auto& both = std::get<MuonWithAdamW>(options_);
             params_.layout().spec(run.param).hidden) {
    ops::muon(stream, parameter, compute, gradient, scalars(), decaying(both.muon, run.decay));
  } else {
    ops::adamw(stream, parameter, compute, first, second, gradient, scalars(),
               decaying(both.adamw, run.decay));
  }
}

}  // namespace trireme
