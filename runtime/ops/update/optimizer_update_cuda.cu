// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/common/fixed_sum_cuda.h"
#include "runtime/ops/common/transform_cuda.h"
#include "runtime/ops/update/optimizer_update.h"
#include "runtime/ops/update/optimizer_update_math.h"

namespace trireme::ops::cuda {
namespace {

__device__ bool skipped(const float* scalars) {
  return scalars[StepScalars::gradient_scale] == 0.0F;
}

// p[i] = step(p[i], state[i]..., g[i]) and its copy in the compute dtype, which may be absent.
template <int width, typename Step, typename T, typename Options, typename... State>
__global__ void update_kernel(float* p, T* low, const float* g, std::int64_t count,
                              const float* scalars, Options options, State*... state) {
  if (skipped(scalars)) return;
  const Step step(options, scalars);
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x * width;
  std::int64_t i = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * width;
  for (; i + width <= count; i += stride) {
    auto parameter = load_pack<width>(p + i);
    const auto gradient = load_pack<width>(g + i);
    [&](auto... packs) {
      for (int j = 0; j < width; ++j)
        parameter[j] = step(parameter[j], packs[j]..., gradient[j]);
      (store_pack(state + i, packs), ...);
    }(load_pack<width>(state + i)...);
    store_pack(p + i, parameter);
    if (low != nullptr) {
      Pack<T, width> rounded;
      for (int j = 0; j < width; ++j)
        store(rounded[j], parameter[j]);
      store_pack(low + i, rounded);
    }
  }
  // The last, partial pack.
  for (; i < count; ++i) {
    p[i] = step(p[i], state[i]..., g[i]);
    if (low != nullptr) store(low[i], p[i]);
  }
}

template <typename Step, typename Options, typename... State>
void update(Stream& stream, const Tensor& parameter, const Tensor& compute, const Tensor& gradient,
            const Tensor& scalars, const Options& options, State*... state) {
  float* const p = parameter.as<float>();
  const float* const g = gradient.as<float>();
  const std::int64_t count = parameter.count();
  visit_compute_dtype(compute.empty() ? DType::bf16 : compute.dtype, [&](auto type) {
    using T = decltype(type);
    T* const low = compute.empty() ? nullptr : compute.as<T>();
    constexpr int widest = pack_width<float>;
    const bool fits = packs_fit(p, 0, widest) && packs_fit(g, 0, widest) &&
                      packs_fit(low, 0, widest) && (packs_fit(state, 0, widest) && ...);
    with_width<float>(fits, [&](auto width) {
      constexpr int w = decltype(width)::value;
      constexpr int threads = 256;
      trireme::cuda::launch(stream, trireme::cuda::grid_for(stream, count, threads * w, threads),
                            update_kernel<w, Step, T, Options, State...>, p, low, g, count,
                            scalars.as<float>(), options, state...);
    });
  });
}

struct Average {
  float decay, rest;
  const float* guard;

  __device__ float operator()(float average, float parameter) const {
    if (guard != nullptr && skipped(guard)) return average;
    return decay * average + rest * parameter;
  }
};

__global__ void trust_ratios_kernel(float* ratios, const double* squares, std::int64_t count,
                                    const float* scalars, TrustOptions options) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  ratios[i] = trust_ratio(squares + 2 * i, scalars[StepScalars::gradient_scale], options);
}

__global__ void clip_scale_kernel(float* scalars, float* norm, const double* total, float clip,
                                  FactorPointers factors) {
  const Clip result(*total, clip, factors.product());
  *norm = result.norm;
  scalars[StepScalars::gradient_scale] = result.gradient_scale;
}

__global__ void update_loss_scale_kernel(float* state, const float* scalars,
                                         LossScaleOptions options) {
  advance_loss_scale(state, skipped(scalars), options);
}

constexpr trireme::cuda::Grid one_thread{.blocks = 1, .threads = 1};

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
  constexpr int threads = 128;
  trireme::cuda::launch(stream,
                        {.blocks = (ratios.count() + threads - 1) / threads, .threads = threads},
                        trust_ratios_kernel, ratios.as<float>(), squares.as<double>(),
                        ratios.count(), scalars.as<float>(), options);
}

void exponential_average(Stream& stream, const Tensor& average, const Tensor& parameter,
                         float decay, const Tensor& scalars) {
  const float* const guard = scalars.empty() ? nullptr : scalars.as<float>();
  float* const a = average.as<float>();
  const float* const p = parameter.as<float>();
  transform(stream, a, average.count(), Average{decay, 1.0F - decay, guard}, a, p);
}

void accumulate_squares(Stream& stream, const Tensor& total, const Tensor& x) {
  add_fixed_sum<true>(stream, total, x);
}

void clip_scale(Stream& stream, const Tensor& scalars, const Tensor& norm, const Tensor& total,
                float clip, const GradientFactors& factors) {
  trireme::cuda::launch(stream, one_thread, clip_scale_kernel, scalars.as<float>(),
                        norm.as<float>(), total.as<double>(), clip, FactorPointers(factors));
}

void update_loss_scale(Stream& stream, const Tensor& state, const Tensor& scalars,
                       const LossScaleOptions& options) {
  trireme::cuda::launch(stream, one_thread, update_loss_scale_kernel, state.as<float>(),
                        scalars.as<float>(), options);
}

TRIREME_CUDA_PROVIDES(ops, adamw);
TRIREME_CUDA_PROVIDES(ops, lion);
TRIREME_CUDA_PROVIDES(ops, sgd);
TRIREME_CUDA_PROVIDES(ops, lamb_direction);
TRIREME_CUDA_PROVIDES(ops, lamb);
TRIREME_CUDA_PROVIDES(ops, lars);
TRIREME_CUDA_PROVIDES(ops, muon_direction);
TRIREME_CUDA_PROVIDES(ops, muon);
TRIREME_CUDA_PROVIDES(ops, trust_ratios);
TRIREME_CUDA_PROVIDES(ops, exponential_average);
TRIREME_CUDA_PROVIDES(ops, accumulate_squares);
TRIREME_CUDA_PROVIDES(ops, clip_scale);
TRIREME_CUDA_PROVIDES(ops, update_loss_scale);

}  // namespace trireme::ops::cuda
