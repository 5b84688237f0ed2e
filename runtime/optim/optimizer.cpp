// SPDX-License-Identifier: Apache-2.0
#include "runtime/optim/optimizer.h"

#include <cmath>

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
                     float clip_norm)
    : device_(device), params_(params), options_(options), clip_norm_(clip_norm) {
  const auto stream = device.make_stream(StreamKind::compute);
  const std::size_t state = static_cast<std::size_t>(params.weight_elements()) * sizeof(float);
  const auto* const sgd = std::get_if<ops::SgdOptions>(&options_);
  if (sgd == nullptr || sgd->momentum > 0) first_ = zeroed(device, stream.get(), state);
  if (sgd == nullptr) second_ = zeroed(device, stream.get(), state);
  scalars_ = zeroed(device, stream.get(), scalar_count * sizeof(float));
  scalars_host_ = Buffer(device, scalar_count * sizeof(float), MemoryKind::host);
  norm_ = zeroed(device, stream.get(), sizeof(float));
  sum_ = zeroed(device, stream.get(), sizeof(double));
  stream->synchronize();
}

Tensor Optimizer::gradient_norm() const {
  return norm_.view(DType::f32, Shape{1});
}

void Optimizer::write_scalars(Stream& stream, std::int64_t step, double learning_rate) {
  auto* const values = reinterpret_cast<float*>(scalars_host_.data());
  values[ops::StepScalars::learning_rate] = static_cast<float>(learning_rate);
  values[ops::StepScalars::bias_correction1] = 1.0F;
  values[ops::StepScalars::bias_correction2] = 1.0F;
  values[ops::StepScalars::gradient_scale] = 1.0F;
  if (const auto* const adamw = std::get_if<ops::AdamWOptions>(&options_)) {
    const auto t = static_cast<double>(step + 1);
    values[ops::StepScalars::bias_correction1] =
        static_cast<float>(1.0 - std::pow(adamw->beta1, t));
    values[ops::StepScalars::bias_correction2] =
        static_cast<float>(1.0 - std::pow(adamw->beta2, t));
  }
  device_.copy(stream, scalars_.data(), scalars_host_.data(), scalars_.bytes());
}

void Optimizer::step(Stream& stream, std::int64_t step, double learning_rate) {
  write_scalars(stream, step, learning_rate);
  const Tensor sum = sum_.view(DType::f64, Shape{1});
  device_.fill_zero(stream, sum_.data(), sum_.bytes());
  ops::accumulate_squares(stream, sum, params_.gradients().range(0, params_.weight_elements()));
  ops::clip_scale(stream, scalars_.view(DType::f32, Shape{scalar_count}), gradient_norm(), sum,
                  clip_norm_);
  for (const ParamSegment& segment : params_.segments())
    update(stream, segment);
}

void Optimizer::update(Stream& stream, const ParamSegment& segment) {
  const auto part = [&](const Tensor& arena) {
    return arena.empty() ? arena : arena.range(segment.first, segment.count);
  };
  const Tensor parameter = part(params_.masters()), gradient = part(params_.gradients());
  const Tensor scalars = scalars_.view(DType::f32, Shape{scalar_count});
  if (segment.kind == ParamKind::statistic) {
    ops::exponential_average(stream, parameter, gradient, segment.statistic_decay, scalars);
    return;
  }
  const Tensor compute = part(params_.compute_copies());
  const auto state = [&](const Buffer& buffer) {
    return buffer.data() == nullptr
               ? Tensor{}
               : part(buffer.view(DType::f32, Shape{params_.weight_elements()}));
  };
  if (auto* const adamw = std::get_if<ops::AdamWOptions>(&options_)) {
    ops::AdamWOptions options = *adamw;
    if (!segment.decay) options.weight_decay = 0;
    ops::adamw(stream, parameter, compute, state(first_), state(second_), gradient, scalars,
               options);
  } else {
    ops::SgdOptions options = std::get<ops::SgdOptions>(options_);
    if (!segment.decay) options.weight_decay = 0;
    ops::sgd(stream, parameter, compute, state(first_), gradient, scalars, options);
  }
}

}  // namespace trireme
