// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "runtime/config/choices.h"
#include "runtime/ops/elementwise/activation.h"
#include "runtime/ops/experts/router.h"

namespace trireme {

namespace ops {
[[nodiscard]] constexpr auto names_of(RouterScore /*key*/) {
  return std::to_array<Named<RouterScore>>({{RouterScore::softmax, "softmax"},
                                            {RouterScore::softmax_of_chosen, "softmax_of_chosen"},
                                            {RouterScore::sigmoid, "sigmoid"}});
}
}  // namespace ops

// A mixture of experts (Shazeer et al., 2017; Fedus et al., Switch Transformer, 2021) in the place
// of an MLP: each token visits router.slots of `count` gated MLPs of width `intermediate` and adds
// their outputs, weighted by the router. No token is ever dropped.
struct ExpertOptions {
  std::int64_t count = 0;  // E; 0: no experts
  std::int64_t intermediate = 1;
  std::int64_t shared_intermediate = 0;  // of an MLP that every token visits; 0: none
  ops::RouterOptions router{};
  bool router_bias = false;
  bool biases = false;  // of the experts' two products
  bool fused = false;   // all experts' published as one tensor (ParamSpec::fused)
  ops::ActivationKind activation = ops::ActivationKind::silu;
  double balance_loss = 0;           // coefficients of the losses in ops/experts/router.h: over the
  double sequence_balance_loss = 0;  // load of the last global batch; per sequence
  double z_loss = 0;
  // Change per step of the biases that steer the choice towards an even load.
  double balance_rate = 0;

  [[nodiscard]] bool any() const { return count > 0; }
  // As in DeepSeek-V3, whose models have biases even if they no longer change.
  [[nodiscard]] bool choice_bias() const {
    return balance_rate > 0 || router.score == ops::RouterScore::sigmoid;
  }
  friend bool operator==(const ExpertOptions&, const ExpertOptions&) = default;
};

}  // namespace trireme
