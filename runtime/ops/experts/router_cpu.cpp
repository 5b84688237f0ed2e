// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/common/scratch.h"
#include "runtime/ops/common/vector_math_cpu.h"
#include "runtime/ops/experts/router_math.h"
#include "runtime/ops/update/optimizer_update.h"

namespace trireme::ops::cpu {
namespace {

// A team of one.
struct Alone {
  template <typename F>
  void each(std::int64_t count, const F& f) const {
    for (std::int64_t i = 0; i < count; ++i)
      f(i);
  }
  template <typename T>
  [[nodiscard]] T sum(T value) const {
    return value;
  }
  [[nodiscard]] std::uint64_t best(std::uint64_t key) const { return key; }
  void sync() const {}
  [[nodiscard]] float exp(float x) const { return fast_exp(x); }
  [[nodiscard]] float log(float x) const { return std::log(x); }
};

TokenRouter<Alone> token_router(const RouterOptions& options, std::int64_t experts) {
  static thread_local ScratchBlock block;
  auto* const memory = reinterpret_cast<float*>(block.at_least(RouterScratch::bytes(experts)));
  return {.team = {},
          .options = options,
          .experts = experts,
          .logits = nullptr,
          .scratch = RouterScratch::at(memory, experts)};
}

}  // namespace

void route(Stream& stream, const Tensor& slots, const Tensor& weights, const Tensor& logits,
           const Tensor& choice_bias, const RouterOptions& options) {
  enqueue(stream, [slots = slots.as<std::int32_t>(), weights = weights.as<float>(),
                   logits = logits.as<float>(), tokens = logits.shape[0], experts = logits.shape[1],
                   bias = choice_bias.empty() ? nullptr : choice_bias.as<float>(), options] {
    TokenRouter<Alone> router = token_router(options, experts);
    for (std::int64_t t = 0; t < tokens; ++t) {
      router.logits = logits + t * experts;
      router.token = t;
      router.choose(bias);
      router.weigh();
      std::copy_n(router.scratch.chosen, options.slots, slots + t * options.slots);
      std::copy_n(router.scratch.terms, options.slots, weights + t * options.slots);
    }
  });
}

void route_backward(Stream& stream, const Tensor& dlogits, const Tensor& dweights,
                    const Tensor& slots, const Tensor& logits, const Tensor& pull,
                    const RouterOptions& options, const RouterLoss& loss) {
  const std::int64_t run = pull.empty() ? 1 : logits.shape[0] / pull.shape[0];
  enqueue(stream, [dlogits = dlogits.as<float>(), dweights = dweights.as<float>(),
                   slots = slots.as<std::int32_t>(), logits = logits.as<float>(),
                   tokens = logits.shape[0], experts = logits.shape[1],
                   pull = pull.empty() ? nullptr : pull.as<float>(), run, options, loss] {
    const float scale = loss.factor();
    TokenRouter<Alone> router = token_router(options, experts);
    for (std::int64_t t = 0; t < tokens; ++t) {
      router.logits = logits + t * experts;
      std::copy_n(slots + t * options.slots, options.slots, router.scratch.chosen);
      router.backward(dlogits + t * experts, dweights + t * options.slots,
                      pull == nullptr ? nullptr : pull + t / run * experts, loss.z,
                      loss.counts(t) ? scale : 0.0F);
    }
  });
}

void expert_counts(Stream& stream, const Tensor& counts, const Tensor& slots,
                   const std::int32_t* starts) {
  enqueue(stream,
          [counts = counts.as<std::int32_t>(), runs = counts.shape[0], experts = counts.shape[1],
           slots = slots.as<std::int32_t>(), tokens = slots.shape[0], k = slots.shape[1], starts] {
            std::fill_n(counts, runs * experts, 0);
            for (std::int64_t run = 0; run < runs; ++run) {
              for (std::int64_t i = run * tokens / runs * k; i < (run + 1) * tokens / runs * k; ++i)
                counts[run * experts + slots[i]] += starts == nullptr || starts[i / k] == 0 ? 1 : 0;
            }
          });
}

void add_counts(Stream& stream, const Tensor& sums, const Tensor& counts) {
  enqueue(stream, [sums = sums.as<float>(), counts = counts.as<std::int32_t>(),
                   runs = counts.shape[0], experts = counts.shape[1]] {
    for (std::int64_t run = 0; run < runs; ++run) {
      for (std::int64_t e = 0; e < experts; ++e)
        sums[e] += static_cast<float>(counts[run * experts + e]);
    }
  });
}

void balance_pull(Stream& stream, const Tensor& pull, const Tensor& counts, const Tensor& load,
                  const BalanceLoss& loss) {
  enqueue(stream, [pull = pull.as<float>(), counts = counts.as<std::int32_t>(),
                   load = load.empty() ? nullptr : load.as<float>(), count = counts.count(),
                   experts = counts.shape[1], loss] {
    const double total = load == nullptr ? 0 : std::accumulate(load, load + experts, 0.0);
    double of_run = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      if (i % experts == 0) of_run = std::accumulate(counts + i, counts + i + experts, 0.0);
      pull[i] = pull_of(counts[i], of_run, load == nullptr ? 0.0F : load[i % experts], total,
                        experts, loss);
    }
  });
}

void balance_bias(Stream& stream, const Tensor& bias, const Tensor& counts, float rate,
                  const Tensor& scalars) {
  enqueue(stream, [bias = bias.as<float>(), counts = counts.as<float>(), experts = bias.shape[0],
                   rate, guard = scalars.empty() ? nullptr : scalars.as<float>()] {
    if (guard != nullptr && guard[StepScalars::gradient_scale] == 0.0F) return;
    const double total = std::accumulate(counts, counts + experts, 0.0);
    for (std::int64_t e = 0; e < experts; ++e)
      bias[e] += bias_step(total, counts[e], experts, rate);
  });
}

}  // namespace trireme::ops::cpu
