// SPDX-License-Identifier: Apache-2.0
// Private: a step's scalars, written once for all back ends, see common/maps_cpu.h.
#pragma once

#include "runtime/ops/update/loss_guard_math.h"
#include "runtime/ops/update/noise_scale_math.h"
#include "runtime/ops/update/optimizer_update_math.h"

namespace trireme::ops::TRIREME_BACK_END {
namespace {

TRIREME_HOST_DEVICE void guard(std::int64_t /*i*/, float* scalars, double* state,
                               const double* sums, std::int64_t micro_batches,
                               const LossGuardOptions& options) {
  if (!guard_step(state, sums, micro_batches, options)) scalars[StepScalars::gradient_scale] = 0.0F;
}

TRIREME_HOST_DEVICE void measure_noise(std::int64_t /*i*/, double* state, const double* squares,
                                       const NoiseOperands& operands) {
  add_measurement(state, squares, operands);
}

TRIREME_HOST_DEVICE void trust(std::int64_t i, float* ratios, const double* squares,
                               const double* counts, const float* scalars,
                               const TrustOptions& options) {
  trust_ratio(ratios + 2 * i, squares + 2 * i, counts == nullptr ? 0 : counts[i],
              scalars[StepScalars::gradient_scale], options);
}

TRIREME_HOST_DEVICE void clip_by_norm(std::int64_t /*i*/, float* scalars, float* norm,
                                      const double* total, float clip,
                                      const FactorPointers& factors) {
  const Clip result(*total, clip, factors.product());
  *norm = result.norm;
  scalars[StepScalars::gradient_scale] = result.gradient_scale;
}

TRIREME_HOST_DEVICE void advance_scale(std::int64_t /*i*/, float* state, const float* scalars,
                                       const LossScaleOptions& options) {
  advance_loss_scale(state, skipped(scalars), options);
}

}  // namespace

void guard_loss(Stream& stream, const Tensor& scalars, const Tensor& state, const Tensor& sums,
                const LossGuardOptions& options) {
  each<guard>(stream, 1, scalars.as<float>(), state.as<double>(), sums.as<double>(),
              sums.count() / LossSums::count, options);
}

void estimate_noise(Stream& stream, const Tensor& state, const Tensor& squares,
                    const NoiseOptions& options) {
  each<measure_noise>(stream, 1, state.as<double>(), squares.as<double>(), NoiseOperands(options));
}

void trust_ratios(Stream& stream, const Tensor& ratios, const Tensor& squares,
                  const Tensor& scalars, const TrustOptions& options, const Tensor& counts) {
  each<trust>(stream, ratios.shape[0], ratios.as<float>(), squares.as<double>(),
              counts.empty() ? nullptr : counts.as<double>(), scalars.as<float>(), options);
}

void clip_scale(Stream& stream, const Tensor& scalars, const Tensor& norm, const Tensor& total,
                float clip, const GradientFactors& factors) {
  each<clip_by_norm>(stream, 1, scalars.as<float>(), norm.as<float>(), total.as<double>(), clip,
                     FactorPointers(factors));
}

void update_loss_scale(Stream& stream, const Tensor& state, const Tensor& scalars,
                       const LossScaleOptions& options) {
  each<advance_scale>(stream, 1, state.as<float>(), scalars.as<float>(), options);
}

TRIREME_PROVIDES(guard_loss, estimate_noise, trust_ratios, clip_scale, update_loss_scale);

}  // namespace trireme::ops::TRIREME_BACK_END
