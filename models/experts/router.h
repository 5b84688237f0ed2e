// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "models/experts/expert_options.h"
#include "models/layers/blocks.h"

namespace trireme {

// Chooses the experts of every token of a micro-batch, in f32, with the same bits on all tensor
// ranks: each routes all N rows. Counts the load: a statistic, so its value is that of the last
// step's global batch, an exact integer, on every rank and in checkpoints.
class Router {
 public:
  // Declares "router.weight" (E, C), optionally "router.bias" (E), and the statistics "router.load"
  // (E) and, with ExpertOptions::choice_bias(), "router.balance" (E).
  Router(Blueprint& blueprint, const ExpertOptions& options, const RowSplit& rows, Init init);

  void forward(const Context& context, const Tensor& normed) const;
  [[nodiscard]] std::int64_t slots() const { return options_.slots; }
  [[nodiscard]] Tensor slots(const Context& context) const { return context(slots_); }  // (N, k)
  [[nodiscard]] Tensor weights(const Context& context) const {
    return context(weights_);
  }  // (N, k)

  // From the gradient of the weights, (N, k), adds to that of this rank's rows [first, first + h)
  // of the input, dnormed(h, C). Accumulates and reports the parameter gradients; with a split
  // backward, backward_weight does that.
  void backward(const Context& context, const Tensor& dnormed, std::int64_t first,
                const Tensor& dweights, const Tensor& normed) const;
  void backward_weight(const Context& context, const Tensor& normed) const;
  [[nodiscard]] bool balances_sequences() const { return balance_.sequence > 0; }

 private:
  [[nodiscard]] Tensor choice_bias(const Context& context) const;
  [[nodiscard]] Tensor balance_pull(const Context& context) const;

  ops::RouterOptions options_;
  ops::BalanceLoss balance_;
  float z_loss_;
  std::int64_t sequences_, rows_, hidden_;
  bool split_backward_;
  ParamId weight_, bias_, load_, bias_of_choice_;
  Activation logits_, slots_, weights_;  // (N, E) f32, (N, k) i32, (N, k) f32
  Activation counts_{}, pull_{};         // (sequences, E), i32 and f32
  Activation dlogits_{};                 // (N, E) f32
};

}  // namespace trireme
