// SPDX-License-Identifier: Apache-2.0
#include "runtime/optim/optimizer.h"

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

}  // namespace

Optimizer::Optimizer(Device& device, ParamStore& params, const OptimizerOptions& options,
                     float clip_norm, NormOptions norm,
                     std::optional<ops::LossScaleOptions> loss_scale)
    : device_(device),
      params_(params),
      options_(options),
      clip_norm_(clip_norm),
      norm_options_(std::move(norm)),
      ready_event_(device.make_event()),
      done_event_(device.make_event()) {
  const MemoryScope scope(MemoryRole::optimizer);
  if (loss_scale) scaler_.emplace(device, *loss_scale);
  const auto stream = device.make_stream(StreamKind::compute);  // whose end waits for it all
  const std::size_t state =
      static_cast<std::size_t>(params.layout().owned_elements()) * sizeof(float);
  const auto* const sgd = std::get_if<ops::SgdOptions>(&options_);
  const bool lamb = std::holds_alternative<ops::LambOptions>(options_);
  if (sgd == nullptr || sgd->momentum > 0) first_ = zeroed(device, stream.get(), state);
  if (lamb || std::holds_alternative<ops::AdamWOptions>(options_))
    second_ = zeroed(device, stream.get(), state);
  if (lamb || std::holds_alternative<ops::LarsOptions>(options_))
    ratios_.emplace(device, params.layout(), norm_options_.exact);
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
  std::visit(
      [&](const auto& options) {
        if constexpr (requires { options.beta2; }) {
          const auto t = static_cast<double>(step + 1);
          values[ops::StepScalars::bias_correction1] =
              static_cast<float>(1.0 - std::pow(options.beta1, t));
          values[ops::StepScalars::bias_correction2] =
              static_cast<float>(1.0 - std::pow(options.beta2, t));
        }
      },
      options_);
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
  const ParamLayout& layout = params_.layout();
  for (const OwnedRun& run : ratios_ ? layout.owned_params() : layout.owned_runs()) {
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
  const Tensor& total = norm_options_.exact ? exact : sum;
  device_.fill_zero(stream, total.data, total.bytes());
  const auto buckets = params_.layout().buckets();
  for (const OwnedRun& run : params_.layout().owned_runs()) {
    if (run.kind != ParamKind::weight || !run.counted) continue;
    const Tensor gradient = params_.gradients()
                                .owned(buckets[static_cast<std::size_t>(run.bucket)])
                                .range(run.first, run.count);
    if (norm_options_.exact) {
      ops::accumulate_squares_exact(stream, exact, gradient);
    } else {
      ops::accumulate_squares(stream, sum, gradient);
    }
  }
  const ScopedCommLabel label("gradient norm");
  sum_over(stream, norm_options_.groups, total);
  if (norm_options_.exact) ops::exact_sum_values(stream, sum, exact);
}

void Optimizer::sum_over(Stream& stream, const std::vector<Communicator*>& groups,
                         const Tensor& values) {
  for (Communicator* const group : groups) {
    if (group->size() == 1) continue;
    stream.record(*ready_event_);
    norm_options_.comm->wait(*ready_event_);
    group->all_reduce(*norm_options_.comm, values, values, ReduceOp::sum);
    norm_options_.comm->record(*done_event_);
    wait_for_comm(stream, *done_event_, norm_options_.stalls);
  }
}

Tensor Optimizer::moments(const Buffer& buffer) const {
  return buffer.data() == nullptr
             ? Tensor{}
             : buffer.view(DType::f32, Shape{params_.layout().owned_elements()});
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
      ops::LambOptions options = *lamb;
      if (!run.decay) options.weight_decay = 0;
      ops::lamb_direction(stream, at.gradient, at.first, at.second, at.parameter, scalars(),
                          options);
    }
    // Biases and norms step as far as their direction is long, as both papers' recipes have it.
    if (run.decay) ratios_->add(stream, run, at.parameter, at.gradient);
  }
  const ScopedCommLabel label("trust ratios");
  sum_over(stream, norm_options_.part_groups, ratios_->sums());
  ops::TrustOptions trust{};
  if (const auto* const lars = std::get_if<ops::LarsOptions>(&options_)) {
    trust = {
        .coefficient = lars->coefficient, .weight_decay = lars->weight_decay, .gradients = true};
  }
  ratios_->finish(stream, scalars(), trust);
}

void Optimizer::update_weights(Stream& stream, const OwnedRun& run) {
  const Slices at = slices(run);
  std::visit(
      [&]<typename Options>(Options options) {
        if (!run.decay) options.weight_decay = 0;
        if constexpr (std::is_same_v<Options, ops::AdamWOptions>) {
          ops::adamw(stream, at.parameter, at.compute, at.first, at.second, at.gradient, scalars(),
                     options);
        } else if constexpr (std::is_same_v<Options, ops::LionOptions>) {
          ops::lion(stream, at.parameter, at.compute, at.first, at.gradient, scalars(), options);
        } else if constexpr (std::is_same_v<Options, ops::SgdOptions>) {
          ops::sgd(stream, at.parameter, at.compute, at.first, at.gradient, scalars(), options);
        } else if constexpr (std::is_same_v<Options, ops::LambOptions>) {
          ops::lamb(stream, at.parameter, at.compute, at.gradient, ratios_->ratio(run.param),
                    scalars());
        } else {
          ops::lars(stream, at.parameter, at.compute, at.first, at.gradient,
                    ratios_->ratio(run.param), scalars(), options);
        }
      },
      options_);
}

}  // namespace trireme
