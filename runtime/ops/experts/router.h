// SPDX-License-Identifier: Apache-2.0
// Which experts a token visits, and with which weights. N tokens, E experts, k slots of each token.
// Ties go to the lower expert; a NaN is below all numbers. Everything here is f32, and a token's
// results depend on its own row alone.
#pragma once

#include <cstdint>

#include "runtime/base/host_device.h"
#include "runtime/device/device.h"

namespace trireme::ops {

enum class RouterScore : std::uint8_t {
  softmax,            // over all experts, before the choice (Qwen3-MoE)
  softmax_of_chosen,  // over the chosen experts' logits (Mixtral, GPT-OSS)
  sigmoid             // of each logit (DeepSeek-V3)
};

inline constexpr std::int64_t most_experts = 1024, most_slots = 32;  // E and k

struct RouterOptions {
  std::int64_t slots = 1;  // k
  RouterScore score = RouterScore::softmax;
  // The chosen scores are divided by their sum (sigmoid: sum + 1e-20). No effect on
  // softmax_of_chosen, whose sum is 1.
  bool renormalize = false;
  float scale = 1;  // then multiplied
  // Experts are in `groups` runs; those in the `groups_kept` with the largest sums of their best
  // two scores (with bias) can be chosen (DeepSeek-V3). 1: no groups.
  std::int64_t groups = 1, groups_kept = 1;
  // Slot j of token t visits expert (t k + j) mod E, whatever the scores, which weigh it still: for
  // benchmarks that assume an even load.
  bool balanced = false;
};

// logits(N, E) f32 = x(N, C) w(E, C)^T + bias(E); x in a compute dtype, w and bias f32, bias may be
// absent. Sums in one order, whatever N.
void router_logits(Stream& stream, const Tensor& logits, const Tensor& x, const Tensor& w,
                   const Tensor& bias = {});
// dx(N, C) += dlogits(N, E) w(E, C), rounded once.
void router_backward_input(Stream& stream, const Tensor& dx, const Tensor& dlogits,
                           const Tensor& w);
// dw(E, C) += dlogits^T x, db(E) += column sums of dlogits; db may be absent.
void router_backward_weight(Stream& stream, const Tensor& dw, const Tensor& db,
                            const Tensor& dlogits, const Tensor& x);

// slots(N, k) i32: the chosen experts, best first, different ones of [0, E) even for NaN logits;
// weights(N, k). choice_bias(E), if present, is added to the scores for the choice alone.
void route(Stream& stream, const Tensor& slots, const Tensor& weights, const Tensor& logits,
           const Tensor& choice_bias, const RouterOptions& options);

// counts(S, E) i32: how many slots chose each expert, of the tokens [s N / S, (s + 1) N / S) for s
// < S. `starts` (N) on the device, if present, is above 0 for padding, which counts nowhere.
void expert_counts(Stream& stream, const Tensor& counts, const Tensor& slots,
                   const std::int32_t* starts = nullptr);
// sums(E) f32 += counts over the runs; exact below 2^24.
void add_counts(Stream& stream, const Tensor& sums, const Tensor& counts);

struct BalanceLoss {
  float sequence = 0;  // coefficient of the loss per sequence
  float batch = 0;     // of that over a global batch's load
};
// pull(S, E) = d(loss) / d(p of a token) times the tokens of a global batch, for the losses
//   sequence * mean over tokens, each of a sequence s, of sum_e E counts[s][e] p / (sum of
//   counts[s])
//   batch * sum_e E load[e] / (sum of load) * mean over all tokens of p
// (Fedus et al., Switch Transformer, 2021; DeepSeek-V3, eq. 17 to 20), where p is a token's score
// of e divided by the sum of its scores. counts(S, E) i32; load(E) f32 (all 0: taken as even) may
// be absent if batch is 0.
void balance_pull(Stream& stream, const Tensor& pull, const Tensor& counts, const Tensor& load,
                  const BalanceLoss& loss);

struct RouterLoss {
  float z = 0;      // coefficient of mean over tokens of logsumexp(logits)^2 (ST-MoE, 2022)
  float scale = 1;  // of both losses' gradients: 1 / (tokens of the global batch)
  const float* loss_scale = nullptr;  // one value on the device, multiplies them too
  // (2) on the device: the counted targets by which clip_scale divides, and the tokens by which it
  // should.
  const double* totals = nullptr;
  const std::int32_t* starts = nullptr;  // as in expert_counts: padding has no loss

  [[nodiscard]] TRIREME_HOST_DEVICE float factor() const {
    const float all = scale * (loss_scale == nullptr ? 1.0F : *loss_scale);
    if (totals == nullptr) return all;
    return all * static_cast<float>((totals[0] > 1.0 ? totals[0] : 1.0) / totals[1]);
  }
  [[nodiscard]] TRIREME_HOST_DEVICE bool counts(std::int64_t token) const {
    return starts == nullptr || starts[token] == 0;
  }
};
// dlogits(N, E), overwritten: from dweights(N, k), the gradient of the weights; of the balance
// losses, pull(S, E), or absent; and of the z-loss. The choice itself has no gradient.
void route_backward(Stream& stream, const Tensor& dlogits, const Tensor& dweights,
                    const Tensor& slots, const Tensor& logits, const Tensor& pull,
                    const RouterOptions& options, const RouterLoss& loss);

// Unless scalars[StepScalars::gradient_scale] (optimizer_update.h) is 0, if given:
// bias(E) += rate * sign(mean of counts - counts[e]) (Wang et al., 2024; DeepSeek-V3). counts(E)
// f32.
void balance_bias(Stream& stream, const Tensor& bias, const Tensor& counts, float rate,
                  const Tensor& scalars = {});

}  // namespace trireme::ops
