// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/update/optimizer_update.h"

#include <algorithm>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/common/fixed_sum.h"
#include "runtime/ops/common/float_types.h"
#include "runtime/ops/update/optimizer_update_math.h"

namespace trireme::ops::cpu {

namespace {

bool skipped(const float* scalars) {
  return scalars[StepScalars::gradient_scale] == 0.0F;
}

// Elements that stay in the first-level cache between the update and its rounding.
constexpr std::int64_t block = 1024;

template <typename T>
void round_block(T* to, const float* from, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i)
    store(to[i], from[i]);
}

template <typename Step, typename... State>
void update_block(const Step& step, float* p, const float* g, std::int64_t n, State*... state) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i)
    p[i] = step(p[i], state[i]..., g[i]);
}

// Calls action with the compute copy: a pointer of its element type, null where it is absent.
template <typename Action>
void visit_copy(const Tensor& compute, Action&& action) {
  visit_compute_dtype(compute.empty() ? DType::f32 : compute.dtype, [&](auto type) {
    using T = decltype(type);
    action(compute.empty() ? nullptr : compute.as<T>());
  });
}

// p[i] = step(p[i], state[i]..., g[i]) and its copy in the compute dtype, which may be absent.
template <typename Step, typename Options, typename... State>
void update(Stream& stream, const Tensor& parameter, const Tensor& compute, const Tensor& gradient,
            const Tensor& scalars, const Options& options, State*... state) {
  visit_copy(compute, [&](auto* copy) {
    enqueue(stream, [p = parameter.as<float>(), copy, g = gradient.as<float>(),
                     scalars = scalars.as<float>(), options, n = parameter.count(), state...] {
      if (skipped(scalars)) return;
      const Step step(options, scalars);
      for (std::int64_t first = 0; first < n; first += block) {
        const std::int64_t count = std::min(block, n - first);
        update_block(step, p + first, g + first, count, state + first...);
        if (copy != nullptr) round_block(copy + first, p + first, count);
      }
    });
  });
}

}  // namespace

void adamw(Stream& stream, const Tensor& parameter, const Tensor& compute, const Tensor& m,
           const Tensor& v, const Tensor& gradient, const Tensor& scalars,
           const AdamWOptions& options) {
  update<AdamWStep>(stream, parameter, compute, gradient, scalars, options, m.as<float>(),
                    v.as<float>());
}

void lion(Stream& stream, const Tensor& parameter, const Tensor& compute, const Tensor& m,
          const Tensor& gradient, const Tensor& scalars, const LionOptions& options) {
  update<LionStep>(stream, parameter, compute, gradient, scalars, options, m.as<float>());
}

void sgd(Stream& stream, const Tensor& parameter, const Tensor& compute, const Tensor& buffer,
         const Tensor& gradient, const Tensor& scalars, const SgdOptions& options) {
  if (buffer.empty()) {
    update<SgdStep>(stream, parameter, compute, gradient, scalars, options);
  } else {
    update<SgdStep>(stream, parameter, compute, gradient, scalars, options, buffer.as<float>());
  }
}

void lamb_direction(Stream& stream, const Tensor& gradient, const Tensor& m, const Tensor& v,
                    const Tensor& parameter, const Tensor& scalars, const LambOptions& options) {
  update<LambDirectionStep>(stream, gradient, {}, parameter, scalars, options, m.as<float>(),
                            v.as<float>());
}

void lamb(Stream& stream, const Tensor& parameter, const Tensor& compute, const Tensor& direction,
          const Tensor& ratio, const Tensor& scalars) {
  update<LambStep>(stream, parameter, compute, direction, scalars,
                   Trusted<LambOptions>{{}, ratio.as<float>()});
}

void lars(Stream& stream, const Tensor& parameter, const Tensor& compute, const Tensor& buffer,
          const Tensor& gradient, const Tensor& ratio, const Tensor& scalars,
          const LarsOptions& options) {
  update<LarsStep>(stream, parameter, compute, gradient, scalars,
                   Trusted<LarsOptions>{options, ratio.as<float>()}, buffer.as<float>());
}

void muon_direction(Stream& stream, const Tensor& gradient, const Tensor& buffer,
                    const Tensor& scalars, const MuonOptions& options) {
  update<MuonDirectionStep>(stream, buffer, {}, gradient, scalars, options, gradient.as<float>());
}

void muon(Stream& stream, const Tensor& parameter, const Tensor& compute, const Tensor& direction,
          const Tensor& scalars, const MuonOptions& options) {
  update<MuonStep>(stream, parameter, compute, direction, scalars, options);
}

void trust_ratios(Stream& stream, const Tensor& ratios, const Tensor& squares,
                  const Tensor& scalars, const TrustOptions& options) {
  enqueue(stream, [ratios = ratios.as<float>(), squares = squares.as<double>(),
                   scalars = scalars.as<float>(), options, n = ratios.count()] {
    for (std::int64_t i = 0; i < n; ++i)
      ratios[i] = trust_ratio(squares + 2 * i, scalars[StepScalars::gradient_scale], options);
  });
}

void exponential_average(Stream& stream, const Tensor& average, const Tensor& parameter,
                         float decay, const Tensor& scalars) {
  const float* const guard = scalars.empty() ? nullptr : scalars.as<float>();
  enqueue(stream,
          [a = average.as<float>(), p = parameter.as<float>(), decay, guard, n = average.count()] {
            if (guard != nullptr && skipped(guard)) return;
            const float rest = 1.0F - decay;
#pragma omp simd
            for (std::int64_t i = 0; i < n; ++i)
              a[i] = decay * a[i] + rest * p[i];
          });
}

void accumulate_squares(Stream& stream, const Tensor& total, const Tensor& x) {
  enqueue(stream, [to = total.as<double>(), from = x.as<float>(), n = x.count()] {
    *to += fixed_sum<true>(from, n);
  });
}

void clip_scale(Stream& stream, const Tensor& scalars, const Tensor& norm, const Tensor& total,
                float clip, const GradientFactors& factors) {
  enqueue(stream, [scalars = scalars.as<float>(), norm = norm.as<float>(),
                   total = total.as<double>(), clip, factors = FactorPointers(factors)] {
    const Clip result(*total, clip, factors.product());
    *norm = result.norm;
    scalars[StepScalars::gradient_scale] = result.gradient_scale;
  });
}

void update_loss_scale(Stream& stream, const Tensor& state, const Tensor& scalars,
                       const LossScaleOptions& options) {
  enqueue(stream, [state = state.as<float>(), scalars = scalars.as<float>(), options] {
    advance_loss_scale(state, skipped(scalars), options);
  });
}

}  // namespace trireme::ops::cpu
