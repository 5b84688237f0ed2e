// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/common/reduce_cuda.h"
#include "runtime/ops/experts/router_math.h"
#include "runtime/ops/update/optimizer_update.h"

namespace trireme::ops::cuda {
namespace {

constexpr int route_warps = 4;  // of a block, one for each token
constexpr int table_threads = 1024;

struct Warp {
  template <typename F>
  __device__ void each(std::int64_t count, const F& f) const {
    for (std::int64_t i = threadIdx.x % warp_size; i < count; i += warp_size)
      f(i);
  }
  __device__ float sum(float value) const { return warp_reduce(value, Sum{}); }
  __device__ std::uint64_t best(std::uint64_t key) const { return warp_reduce(key, Max{}); }
  __device__ void sync() const { __syncwarp(); }
  __device__ float exp(float x) const { return expf(x); }
  __device__ float log(float x) const { return logf(x); }
};

[[nodiscard]] Grid route_grid(std::int64_t tokens, std::int64_t experts) {
  return {.blocks = ceil_div(tokens, route_warps),
          .threads = warp_size * route_warps,
          .shared_bytes = route_warps * RouterScratch::bytes(experts)};
}

// Of this warp's token, which may be behind the last.
struct WarpToken {
  std::int64_t token;
  TokenRouter<Warp> router;

  __device__ WarpToken(const float* logits, std::int64_t experts, const RouterOptions& options)
      : token(std::int64_t{blockIdx.x} * route_warps + threadIdx.x / warp_size),
        router{.team = {},
               .options = options,
               .experts = experts,
               .logits = logits + token * experts,
               .scratch = RouterScratch::at(
                   dynamic_shared<float>() +
                       threadIdx.x / warp_size * RouterScratch::bytes(experts) / sizeof(float),
                   experts),
               .token = token} {}
};

__global__ void __launch_bounds__(warp_size* route_warps)
    route_kernel(std::int32_t* slots, float* weights, const float* logits, const float* bias,
                 std::int64_t tokens, std::int64_t experts, RouterOptions options) {
  const WarpToken own(logits, experts, options);
  if (own.token >= tokens) return;
  own.router.choose(bias);
  own.router.weigh();
  own.router.team.each(options.slots, [&](std::int64_t j) {
    slots[own.token * options.slots + j] = own.router.scratch.chosen[j];
    weights[own.token * options.slots + j] = own.router.scratch.terms[j];
  });
}

__global__ void __launch_bounds__(warp_size* route_warps, 8)
    route_backward_kernel(float* dlogits, const float* dweights, const std::int32_t* slots,
                          const float* logits, const float* pull, std::int64_t run,
                          std::int64_t tokens, std::int64_t experts, RouterOptions options,
                          RouterLoss loss) {
  const WarpToken own(logits, experts, options);
  if (own.token >= tokens) return;
  own.router.team.each(options.slots, [&](std::int64_t j) {
    own.router.scratch.chosen[j] = slots[own.token * options.slots + j];
  });
  const float scale = loss.counts(own.token) ? loss.factor() : 0.0F;
  own.router.backward(dlogits + own.token * experts, dweights + own.token * options.slots,
                      pull == nullptr ? nullptr : pull + own.token / run * experts, loss.z, scale);
}

// A block for each run. Integers: the order of the atomics does not matter.
__global__ void __launch_bounds__(table_threads)
    counts_kernel(std::int32_t* counts, const std::int32_t* slots, const std::int32_t* starts,
                  std::int64_t tokens, std::int64_t k, std::int64_t experts) {
  const std::int64_t runs = gridDim.x, first = blockIdx.x * tokens / runs * k;
  const std::int64_t end = (blockIdx.x + 1) * tokens / runs * k;
  auto* const own = dynamic_shared<int>();
  for (std::int64_t e = threadIdx.x; e < experts; e += blockDim.x)
    own[e] = 0;
  __syncthreads();
  for (std::int64_t i = first + threadIdx.x; i < end; i += blockDim.x)
    if (starts == nullptr || starts[i / k] == 0) atomicAdd(own + slots[i], 1);
  __syncthreads();
  for (std::int64_t e = threadIdx.x; e < experts; e += blockDim.x)
    counts[blockIdx.x * experts + e] = own[e];
}

__global__ void add_counts_kernel(float* sums, const std::int32_t* counts, std::int64_t runs,
                                  std::int64_t experts) {
  for (std::int64_t e = threadIdx.x; e < experts; e += blockDim.x) {
    float sum = sums[e];
    for (std::int64_t run = 0; run < runs; ++run)
      sum += static_cast<float>(counts[run * experts + e]);
    sums[e] = sum;
  }
}

// Of integers, so exact in any order.
template <typename Value>
__device__ double total_of(const Value* values, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; values != nullptr && i < count; i += blockDim.x)
    sum += static_cast<double>(values[i]);
  return block_reduce<table_threads>(sum, 0.0, Sum{});
}

// A block for each run.
__global__ void __launch_bounds__(table_threads)
    pull_kernel(float* pull, const std::int32_t* counts, const float* load, std::int64_t experts,
                BalanceLoss loss) {
  const std::int64_t first = blockIdx.x * experts;
  const double total = total_of(load, experts), of_run = total_of(counts + first, experts);
  for (std::int64_t e = threadIdx.x; e < experts; e += blockDim.x)
    pull[first + e] =
        pull_of(counts[first + e], of_run, load == nullptr ? 0.0F : load[e], total, experts, loss);
}

__global__ void __launch_bounds__(table_threads)
    bias_kernel(float* bias, const float* counts, std::int64_t experts, float rate,
                const float* guard) {
  if (guard != nullptr && guard[StepScalars::gradient_scale] == 0.0F) return;
  const double total = total_of(counts, experts);
  for (std::int64_t e = threadIdx.x; e < experts; e += blockDim.x)
    bias[e] += bias_step(total, counts[e], experts, rate);
}

}  // namespace

void route(Stream& stream, const Tensor& slots, const Tensor& weights, const Tensor& logits,
           const Tensor& choice_bias, const RouterOptions& options) {
  launch(stream, route_grid(logits.shape[0], logits.shape[1]), route_kernel,
         slots.as<std::int32_t>(), weights.as<float>(), logits.as<float>(),
         choice_bias.empty() ? nullptr : choice_bias.as<float>(), logits.shape[0], logits.shape[1],
         options);
}

void route_backward(Stream& stream, const Tensor& dlogits, const Tensor& dweights,
                    const Tensor& slots, const Tensor& logits, const Tensor& pull,
                    const RouterOptions& options, const RouterLoss& loss) {
  launch(stream, route_grid(logits.shape[0], logits.shape[1]), route_backward_kernel,
         dlogits.as<float>(), dweights.as<float>(), slots.as<std::int32_t>(), logits.as<float>(),
         pull.empty() ? nullptr : pull.as<float>(),
         pull.empty() ? 1 : logits.shape[0] / pull.shape[0], logits.shape[0], logits.shape[1],
         options, loss);
}

void expert_counts(Stream& stream, const Tensor& counts, const Tensor& slots,
                   const std::int32_t* starts) {
  const std::int64_t runs = counts.shape[0], experts = counts.shape[1];
  launch(stream,
         {.blocks = runs,
          .threads = table_threads,
          .shared_bytes = static_cast<std::size_t>(experts) * sizeof(int)},
         counts_kernel, counts.as<std::int32_t>(), slots.as<std::int32_t>(), starts, slots.shape[0],
         slots.shape[1], experts);
}

void add_counts(Stream& stream, const Tensor& sums, const Tensor& counts) {
  launch(stream, {.blocks = 1, .threads = table_threads}, add_counts_kernel, sums.as<float>(),
         counts.as<std::int32_t>(), counts.shape[0], counts.shape[1]);
}

void balance_pull(Stream& stream, const Tensor& pull, const Tensor& counts, const Tensor& load,
                  const BalanceLoss& loss) {
  launch(stream, {.blocks = counts.shape[0], .threads = table_threads}, pull_kernel,
         pull.as<float>(), counts.as<std::int32_t>(), load.empty() ? nullptr : load.as<float>(),
         counts.shape[1], loss);
}

void balance_bias(Stream& stream, const Tensor& bias, const Tensor& counts, float rate,
                  const Tensor& scalars) {
  launch(stream, {.blocks = 1, .threads = table_threads}, bias_kernel, bias.as<float>(),
         counts.as<float>(), bias.shape[0], rate, scalars.empty() ? nullptr : scalars.as<float>());
}

TRIREME_CUDA_PROVIDES(ops, route, route_backward, expert_counts, add_counts, balance_pull,
                      balance_bias);

}  // namespace trireme::ops::cuda
