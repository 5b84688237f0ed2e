// SPDX-License-Identifier: Apache-2.0
// The update of one element, shared by all back ends. The caller must skip a step whose gradient
// scale is 0 (see clip_scale): 0 * infinity would poison the moments.
#pragma once

#include <cmath>
#include <type_traits>

#include "runtime/base/error.h"
#include "runtime/base/philox.h"
#include "runtime/ops/update/loss_sums.h"
#include "runtime/ops/update/optimizer_update.h"
#include "runtime/ops/update/update_table.h"

namespace trireme::ops {

// Element-wise operands of a step in a run: target = step(target, states..., source).
struct StepOperands {
  float* target;
  const float* source;
  float* states[2];  // the step uses state_count of them
};

// A step's inputs from a table's runs besides parameter and gradient.
struct StepNeeds {
  bool first = false, second = false, ratio = false;
};

// A step that updates the parameter, and its copy in the compute dtype, from its gradient.
template <int states, bool ratio = false>
struct ParameterStep {
  static constexpr int state_count = states;
  static constexpr int read = states + 2;  // tensors
  static constexpr bool copied = true;
  static constexpr StepNeeds needs{.first = states > 0, .second = states > 1, .ratio = ratio};
  TRIREME_HOST_DEVICE static StepOperands operands(const UpdateEntry& run) {
    return {run.parameter, run.gradient, {run.first, run.second}};
  }
};

TRIREME_HOST_DEVICE inline float decay_of(const UpdateEntry& run, float weight_decay) {
  return weight_decay * run.decay / run.rate;
}

// The direction of adamw and lamb, with g = gradient * scalars[gradient_scale]:
//   m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;  (m / c1) / (sqrt(v / c2) + eps)
// m and v are the first and second moment, c1 = 1 - b1^t and c2 = 1 - b2^t.
struct AdamDirection {
  float beta1, beta2, epsilon;
  float rest1, rest2;            // 1 - beta
  float inverse_c1, inverse_c2;  // of the bias corrections
  float gradient_scale;

  TRIREME_HOST_DEVICE AdamDirection(const UpdateOptions& options, const float* scalars)
      : beta1(options.beta1),
        beta2(options.beta2),
        epsilon(options.epsilon),
        rest1(1.0F - options.beta1),
        rest2(1.0F - options.beta2),
        inverse_c1(1.0F / scalars[StepScalars::bias_correction1]),
        inverse_c2(1.0F / scalars[StepScalars::bias_correction2]),
        gradient_scale(scalars[StepScalars::gradient_scale]) {}

  // Updates the moments.
  TRIREME_HOST_DEVICE float operator()(float& m, float& v, float gradient) const {
    const float g = gradient * gradient_scale;
    m = beta1 * m + rest1 * g;
    v = beta2 * v + rest2 * (g * g);
    return (m * inverse_c1) / (std::sqrt(v * inverse_c2) + epsilon);
  }
};

// p -= lr * (direction + decay * p), where lr is the learning rate times the run's rate and decay
// is weight_decay divided by the run's rate, or 0 (Loshchilov & Hutter, 2019).
struct AdamWStep : ParameterStep<2> {
  static constexpr const char* name = "adamw";
  AdamDirection direction;
  float decay, learning_rate;

  TRIREME_HOST_DEVICE AdamWStep(const UpdateOptions& options, const UpdateEntry& run,
                                const float* scalars)
      : direction(options, scalars),
        decay(decay_of(run, options.weight_decay)),
        learning_rate(scalars[StepScalars::learning_rate] * run.rate) {}

  // Returns the new parameter; updates the moments.
  TRIREME_HOST_DEVICE float operator()(float p, float& m, float& v, float gradient) const {
    return p - learning_rate * (direction(m, v, gradient) + decay * p);
  }
};

// LAMB (You et al., "Large batch optimization for deep learning", 2020) scales AdamW's direction by
// trust_ratios. First half, replacing the gradient: direction + decay * p.
struct LambDirectionStep {
  static constexpr const char* name = "lamb_direction";
  static constexpr int read = 4;
  static constexpr StepNeeds needs{.first = true, .second = true};
  static constexpr int state_count = 2;
  static constexpr bool copied = false;
  TRIREME_HOST_DEVICE static StepOperands operands(const UpdateEntry& run) {
    return {run.gradient, run.parameter, {run.first, run.second}};
  }

  AdamDirection direction;
  float decay;

  TRIREME_HOST_DEVICE LambDirectionStep(const UpdateOptions& options, const UpdateEntry& run,
                                        const float* scalars)
      : direction(options, scalars), decay(decay_of(run, options.weight_decay)) {}

  TRIREME_HOST_DEVICE float operator()(float gradient, float& m, float& v, float p) const {
    return direction(m, v, gradient) + decay * p;
  }
};

// Second half: p -= lr * ratio * direction.
struct LambStep : ParameterStep<0, true> {
  static constexpr const char* name = "lamb";
  float rate;

  TRIREME_HOST_DEVICE LambStep(const UpdateOptions& /*options*/, const UpdateEntry& run,
                               const float* scalars)
      : rate(scalars[StepScalars::learning_rate] * run.rate * *run.ratio) {}

  TRIREME_HOST_DEVICE float operator()(float p, float direction) const {
    return p - rate * direction;
  }
};

// LARS (You, Gitman and Ginsburg, "Large batch training of convolutional networks", 2017):
//   b = momentum b + lr * ratio * (g + decay * p);  p -= b
// b is the first moment.
struct LarsStep : ParameterStep<1, true> {
  static constexpr const char* name = "lars";
  float momentum, decay, rate, gradient_scale;

  TRIREME_HOST_DEVICE LarsStep(const UpdateOptions& options, const UpdateEntry& run,
                               const float* scalars)
      : momentum(options.momentum),
        decay(decay_of(run, options.weight_decay)),
        rate(scalars[StepScalars::learning_rate] * *run.ratio),
        gradient_scale(scalars[StepScalars::gradient_scale]) {}

  TRIREME_HOST_DEVICE float operator()(float p, float& b, float gradient) const {
    b = momentum * b + rate * (gradient * gradient_scale + decay * p);
    return p - b;
  }
};

// Adafactor (Shazeer and Stern, "Adaptive learning rates with sublinear memory cost", 2018), with
// the schedule's learning rate and no first moment, as in T5. First half, for runs that are rows,
// with factored_moments' row factor in the ratio and its column factors in the first moment: g *
// row * column.
struct AdafactorDirectionStep {
  static constexpr const char* name = "adafactor_direction";
  static constexpr int state_count = 0;
  static constexpr int read = 2;
  static constexpr bool copied = false;
  static constexpr StepNeeds needs{.first = true, .ratio = true};
  TRIREME_HOST_DEVICE static StepOperands operands(const UpdateEntry& run) {
    return {run.gradient, run.first, {}};
  }

  float row;  // times the gradient scale

  TRIREME_HOST_DEVICE AdafactorDirectionStep(const UpdateOptions& /*options*/,
                                             const UpdateEntry& run, const float* scalars)
      : row(scalars[StepScalars::gradient_scale] * *run.ratio) {}

  TRIREME_HOST_DEVICE float operator()(float gradient, float column) const {
    return gradient * row * column;
  }
};

// Second half, with ratio and scale of trust_ratios: p -= lr * (ratio * direction + scale * decay *
// p).
struct AdafactorStep : ParameterStep<0, true> {
  static constexpr const char* name = "adafactor";
  float rate, decay;

  TRIREME_HOST_DEVICE AdafactorStep(const UpdateOptions& options, const UpdateEntry& run,
                                    const float* scalars)
      : rate(scalars[StepScalars::learning_rate] * run.rate * run.ratio[0]),
        decay(scalars[StepScalars::learning_rate] * run.rate * run.ratio[1] *
              decay_of(run, options.weight_decay)) {}

  TRIREME_HOST_DEVICE float operator()(float p, float direction) const {
    return p - (rate * direction + decay * p);
  }
};

// Muon (Jordan et al., 2024), for matrices between hidden activations. First half: the momentum
// and, replacing the gradient, Nesterov's look-ahead,
//   b = momentum b + g;  gradient = g + momentum b
// b is the first moment.
struct MuonDirectionStep {
  static constexpr const char* name = "muon_direction";
  static constexpr int read = 2;
  static constexpr StepNeeds needs{.first = true};
  static constexpr int state_count = 1;
  static constexpr bool copied = false;
  TRIREME_HOST_DEVICE static StepOperands operands(const UpdateEntry& run) {
    return {run.first, run.gradient, {run.gradient, nullptr}};
  }

  float momentum, gradient_scale;

  TRIREME_HOST_DEVICE MuonDirectionStep(const UpdateOptions& options, const UpdateEntry& /*run*/,
                                        const float* scalars)
      : momentum(options.momentum), gradient_scale(scalars[StepScalars::gradient_scale]) {}

  // Returns the new buffer; `gradient` becomes the direction.
  TRIREME_HOST_DEVICE float operator()(float b, float& direction, float gradient) const {
    const float g = gradient * gradient_scale;
    b = momentum * b + g;
    direction = g + momentum * b;
    return b;
  }
};

// Second half, after newton_schulz.h has computed the direction: p -= lr * (direction + decay p).
struct MuonStep : ParameterStep<0> {
  static constexpr const char* name = "muon";
  float decay, learning_rate;

  TRIREME_HOST_DEVICE MuonStep(const UpdateOptions& options, const UpdateEntry& run,
                               const float* scalars)
      : decay(decay_of(run, options.weight_decay)),
        learning_rate(scalars[StepScalars::learning_rate] * run.rate) {}

  TRIREME_HOST_DEVICE float operator()(float p, float direction) const {
    return p - learning_rate * (direction + decay * p);
  }
};

// The ratio and the scale of trust_ratios; count: 0 without counts.
TRIREME_HOST_DEVICE inline void trust_ratio(float* ratio, const double* squares, double count,
                                            float gradient_scale, const TrustOptions& options) {
  const double parameter = std::sqrt(squares[0]), direction = std::sqrt(squares[1]);
  ratio[0] = ratio[1] = 1.0F;
  if (count > 0.0) {
    const double scale =
        options.scale_parameter ? std::fmax(1e-3, parameter / std::sqrt(count)) : 1.0;
    ratio[0] = static_cast<float>(scale / std::fmax(1.0, direction / std::sqrt(count)));
    ratio[1] = static_cast<float>(scale);
  } else if (parameter != 0.0 && direction != 0.0) {
    const double scale = options.gradients ? gradient_scale : 1.0;
    const double length = scale * direction + options.weight_decay * parameter;
    ratio[0] = static_cast<float>(options.coefficient * parameter / length);
  }
}

// The mean squares of rows and columns in factored_moments.
struct FactoredStep {
  float kept, rest;
  double scale;

  TRIREME_HOST_DEVICE explicit FactoredStep(const float* scalars)
      : kept(1.0F - scalars[StepScalars::bias_correction2]),
        rest(scalars[StepScalars::bias_correction2]),
        scale(static_cast<double>(scalars[StepScalars::gradient_scale]) *
              static_cast<double>(scalars[StepScalars::gradient_scale])) {}

  TRIREME_HOST_DEVICE float operator()(float state, double total, std::int64_t count) const {
    const double mean = total * scale / static_cast<double>(count);
    // Squares of gradients above 2^64 exceed f32; trust_ratios shortens the larger direction.
    return std::fmin(kept * state + rest * static_cast<float>(std::fmin(mean + 1e-30, 0x1p127)),
                     0x1p127F);
  }
};

TRIREME_HOST_DEVICE inline float root_of(double over, float state) {
  return static_cast<float>(std::sqrt(over / static_cast<double>(state)));
}

// Lion (Chen et al., 2023): with g, lr and decay as for adamw,
//   p -= lr * (sign(b1 m + (1 - b1) g) + decay * p);  m = b2 m + (1 - b2) g
struct LionStep : ParameterStep<1> {
  static constexpr const char* name = "lion";
  float beta1, beta2, rest1, rest2, decay, learning_rate, gradient_scale;

  TRIREME_HOST_DEVICE LionStep(const UpdateOptions& options, const UpdateEntry& run,
                               const float* scalars)
      : beta1(options.beta1),
        beta2(options.beta2),
        rest1(1.0F - options.beta1),
        rest2(1.0F - options.beta2),
        decay(decay_of(run, options.weight_decay)),
        learning_rate(scalars[StepScalars::learning_rate] * run.rate),
        gradient_scale(scalars[StepScalars::gradient_scale]) {}

  TRIREME_HOST_DEVICE float operator()(float p, float& m, float gradient) const {
    const float g = gradient * gradient_scale;
    const float mixed = beta1 * m + rest1 * g;
    const float sign = (mixed > 0.0F ? 1.0F : 0.0F) - (mixed < 0.0F ? 1.0F : 0.0F);
    m = beta2 * m + rest2 * g;
    return p - learning_rate * (sign + decay * p);
  }
};

// With d = g + decay * p as in PyTorch:
//   b = momentum b + d;  p -= lr * (nesterov ? d + momentum b : b)
// b is the first moment; `states`: 1 with momentum.
template <int states>
struct SgdStep : ParameterStep<states> {
  static constexpr const char* name = "sgd";
  float momentum, decay, learning_rate, gradient_scale;
  // Weights of g and b in the step: (1, momentum) for Nesterov, else (0, 1).
  float gradient_weight, buffer_weight;

  TRIREME_HOST_DEVICE SgdStep(const UpdateOptions& options, const UpdateEntry& run,
                              const float* scalars)
      : momentum(options.momentum),
        decay(decay_of(run, options.weight_decay)),
        learning_rate(scalars[StepScalars::learning_rate] * run.rate),
        gradient_scale(scalars[StepScalars::gradient_scale]),
        gradient_weight(options.nesterov ? 1.0F : 0.0F),
        buffer_weight(options.nesterov ? options.momentum : 1.0F) {}

  TRIREME_HOST_DEVICE float operator()(float p, float& b, float gradient) const {
    const float g = gradient * gradient_scale + decay * p;
    b = momentum * b + g;
    return p - learning_rate * (gradient_weight * g + buffer_weight * b);
  }
  // Without momentum.
  TRIREME_HOST_DEVICE float operator()(float p, float gradient) const {
    float none = 0.0F;
    return (*this)(p, none, gradient);
  }
};

// Calls visit(std::type_identity<Step>).
template <typename Visit>
void visit_step(OptimizerKind kind, UpdatePart part, const UpdateOptions& options, Visit&& visit) {
  const auto halves = [&]<typename First, typename Second>(First first, Second second) {
    part == UpdatePart::direction ? visit(first) : visit(second);
  };
  using std::type_identity;
  const OptimizerTraits& traits = traits_of(kind);
  TRIREME_EXPECTS(part == UpdatePart::weights || traits.direction, "{} has no direction",
                  traits.name);
  switch (kind) {
    case OptimizerKind::adafactor:
      return halves(type_identity<AdafactorDirectionStep>{}, type_identity<AdafactorStep>{});
    case OptimizerKind::adamw:
      return visit(type_identity<AdamWStep>{});
    case OptimizerKind::lamb:
      return halves(type_identity<LambDirectionStep>{}, type_identity<LambStep>{});
    case OptimizerKind::lars:
      return visit(type_identity<LarsStep>{});
    case OptimizerKind::lion:
      return visit(type_identity<LionStep>{});
    case OptimizerKind::muon:
      return halves(type_identity<MuonDirectionStep>{}, type_identity<MuonStep>{});
    case OptimizerKind::sgd:
      return options.momentum == 0.0F ? visit(type_identity<SgdStep<0>>{})
                                      : visit(type_identity<SgdStep<1>>{});
  }
}

// A step that must not change anything.
TRIREME_HOST_DEVICE inline bool skipped(const float* scalars) {
  return scalars[StepScalars::gradient_scale] == 0.0F;
}

// GradientFactors for kernels.
struct FactorPointers {
  const float* loss_scale;
  const double* sums;
  std::int64_t micro_batches;
  double targets;

  explicit FactorPointers(const GradientFactors& factors)
      : loss_scale(factors.loss_scale.empty() ? nullptr : factors.loss_scale.as<float>()),
        sums(factors.sums.empty() ? nullptr : factors.sums.as<double>()),
        micro_batches(factors.sums.empty() ? 0 : factors.sums.count() / LossSums::count),
        targets(factors.targets) {}

  TRIREME_HOST_DEVICE float product() const {
    const float scale = loss_scale == nullptr ? 1.0F : *loss_scale;
    if (sums == nullptr) return scale;
    return scale * static_cast<float>(counted_targets(sums, micro_batches) / targets);
  }
};

struct Clip {
  float norm;            // of the gradients without these factors
  float gradient_scale;  // removes the factors and clips; 0 = skip the step

  TRIREME_HOST_DEVICE Clip(double sum_of_squares, float limit, float factor)
      : norm(static_cast<float>(std::sqrt(sum_of_squares) / static_cast<double>(factor))),
        gradient_scale((limit > 0.0F && norm > limit ? limit / norm : 1.0F) / factor) {
    if (!std::isfinite(norm)) gradient_scale = 0.0F;
  }
};

// state: LossScaleState.
TRIREME_HOST_DEVICE inline void advance_loss_scale(float* state, bool skipped,
                                                   const LossScaleOptions& options) {
  float& scale = state[LossScaleState::scale];
  float& good = state[LossScaleState::good_steps];
  if (skipped) {
    scale = std::fmax(scale / options.factor, options.minimum);
    state[LossScaleState::skipped_steps] += 1.0F;
    good = 0.0F;
    return;
  }
  good += 1.0F;
  if (good < options.growth_interval) return;
  scale = std::fmin(scale * options.factor, LossScaleOptions::maximum);
  good = 0.0F;
}

}  // namespace trireme::ops
