// SPDX-License-Identifier: Apache-2.0
// Fused optimizer updates over all runs of a table, one launch each, and the gradient norm. Values
// that change per step are in device memory (StepScalars), so a captured step can be replayed.
#pragma once

#include "runtime/config/optimizer_config.h"
#include "runtime/ops/update/update_table.h"

namespace trireme::ops {

// Layout of the `scalars` tensor: f32, StepScalars::count elements on the device.
struct StepScalars {
  // bias_correction2 of factored moments: the weight of this step's mean squares.
  enum Index : int { learning_rate, bias_correction1, bias_correction2, gradient_scale, count };
};

struct UpdateOptions {
  float beta1 = 0.9F, beta2 = 0.999F, epsilon = 1e-8F;
  float momentum = 0.0F;
  bool nesterov = false;
  float weight_decay = 0.0F;
};

// Some optimizers first turn every gradient into a direction, then apply it to the weights.
enum class UpdatePart : std::uint8_t { direction, weights };

// Applies the optimizer's formula (optimizer_update_math.h) to each element of each run. `compute`,
// if a run has it, receives the rounded new parameter.
void update(Stream& stream, OptimizerKind kind, UpdatePart part, const UpdateTable& table,
            const Tensor& scalars, const UpdateOptions& options);

// Location of a matrix's values: one per row and per column.
struct FactoredMatrix {
  std::int64_t rows, columns;
  std::int64_t first_row, first_column;
};

// state f32 = mean squares of rows and columns, from totals f64, the sums of squares of gradients:
//   state = (1 - rest) state + rest (total * scalars[gradient_scale]^2 / count + 1e-30),
// rest = scalars[bias_correction2] and count the elements of the row or column. roots receive the
// factors of a gradient: for its row sqrt(mean of the rows' states / state), for its column
// 1 / sqrt(state). All have one shape; `matrices` are on the device.
void factored_moments(Stream& stream, const Tensor& state, const Tensor& roots,
                      const Tensor& totals, const Tensor& scalars,
                      std::span<const FactoredMatrix> matrices);

struct TrustOptions {
  float coefficient = 1.0F;
  float weight_decay = 0.0F;  // the direction is an unscaled gradient without decay (LARS)
  bool gradients = false;
  bool scale_parameter = false;  // with counts
};

// ratios(n, 2) f32 of squares(n, 2) f64, the sums of squares of a tensor p and of its direction d:
//   coefficient |p| / (s |d| + decay |p|),  1 where |p| or |d| is 0,  and 1;
// s = scalars[gradient_scale] where directions are gradients, else 1. With counts(n) f64, the
// elements of the tensors, and rms(x) = |x| / sqrt(count):
//   scale / max(1, rms(d)), and scale = scale_parameter ? max(1e-3, rms(p)) : 1
void trust_ratios(Stream& stream, const Tensor& ratios, const Tensor& squares,
                  const Tensor& scalars, const TrustOptions& options, const Tensor& counts = {});

// average = decay * average + (1 - decay) * parameter. With `scalars`, a step that clip_scale
// marked as non-finite leaves the average unchanged.
void exponential_average(Stream& stream, const Tensor& average, const Tensor& parameter,
                         float decay, const Tensor& scalars = {});

// The gradients of a step are those of the mean loss over the counted targets, times loss_scale *
// count / targets, because the count is known only after all micro-batches.
struct GradientFactors {
  Tensor loss_scale{};  // (1) f32; absent: 1
  Tensor sums{};        // (micro-batches, LossSums::count) f64 of the step; absent: all count
  double targets = 1;   // divisor of the gradients
};

// norm(1) f32 = sqrt(total) / s; scalars[gradient_scale] = (clip > 0 && norm > clip ? clip / norm :
// 1) / s, with s the factor of the gradients besides 1 / count. A non-finite norm sets the scale to
// 0, with which the optimizers change nothing, and stays visible in `norm`.
void clip_scale(Stream& stream, const Tensor& scalars, const Tensor& norm, const Tensor& total,
                float clip, const GradientFactors& factors = {});

// Layout of the state of a dynamic loss scale: f32, LossScaleState::count elements on the device.
// Counts are exact up to 2^24 and saturate there.
struct LossScaleState {
  enum Index : int {
    scale,
    good_steps,     // since the scale last changed
    skipped_steps,  // of the whole run
    count
  };
};

struct LossScaleOptions {
  float initial = 65536.0F;
  float growth_interval = 2000.0F;  // good steps in a row after which the scale grows
  float factor = 2.0F;              // of growth, and of the fall after a skipped step
  float minimum = 1.0F;
  // Above it the gradient of the loss itself overflows in f16.
  static constexpr float maximum = 0x1p+24F;
};

// After clip_scale: a step with gradient scale 0 divides the loss scale and counts as skipped; the
// last of `growth_interval` good steps multiplies it.
void update_loss_scale(Stream& stream, const Tensor& state, const Tensor& scalars,
                       const LossScaleOptions& options);

}  // namespace trireme::ops
