// SPDX-License-Identifier: Apache-2.0
// The optimizer section of a config, and the traits of each optimizer in one row.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/choices.h"

namespace trireme {

// optimizer.name
enum class OptimizerKind : std::uint8_t { adafactor, adamw, lamb, lars, lion, muon, sgd };
// Traits of an optimizer; its steps are in ops/update/optimizer_update_math.h.
struct OptimizerTraits {
  OptimizerKind kind{};
  std::string_view name{};
  int moments = 0;                                        // kept per weight
  bool betas = false, epsilon = false, momentum = false;  // keys that it uses
  bool momentum_may_be_absent = false;  // with momentum 0 it keeps one moment less
  bool bias_correction = false;         // of the moments, from powers of betas
  bool own_rates = false;               // supports per-parameter learning rates
  bool direction = false;               // first computes a direction from each gradient
  bool factored = false;                // directions by the mean squares of rows and columns
  bool trust_ratios = false;            // scales each tensor's step by norms
  bool groups = true;                   // parameters may have shares of the rate and the decay
  bool orthogonal = false;  // orthogonal directions for hidden matrices, AdamW for others
};
inline constexpr auto optimizer_table = std::to_array<OptimizerTraits>(
    {{.kind = OptimizerKind::adafactor,
      .name = "adafactor",
      .direction = true,
      .factored = true,
      .trust_ratios = true},
     {.kind = OptimizerKind::adamw,
      .name = "adamw",
      .moments = 2,
      .betas = true,
      .epsilon = true,
      .bias_correction = true,
      .own_rates = true},
     {.kind = OptimizerKind::lamb,
      .name = "lamb",
      .moments = 2,
      .betas = true,
      .epsilon = true,
      .bias_correction = true,
      .direction = true,
      .trust_ratios = true},
     {.kind = OptimizerKind::lars,
      .name = "lars",
      .moments = 1,
      .momentum = true,
      .trust_ratios = true,
      .groups = false},
     {.kind = OptimizerKind::lion, .name = "lion", .moments = 1, .betas = true, .own_rates = true},
     {.kind = OptimizerKind::muon,
      .name = "muon",
      .moments = 2,
      .betas = true,
      .epsilon = true,
      .momentum = true,
      .bias_correction = true,
      .direction = true,
      .orthogonal = true},
     {.kind = OptimizerKind::sgd,
      .name = "sgd",
      .moments = 1,
      .momentum = true,
      .momentum_may_be_absent = true}});
static_assert(std::ranges::is_sorted(optimizer_table, {}, &OptimizerTraits::kind));
[[nodiscard]] constexpr const OptimizerTraits& traits_of(OptimizerKind kind) {
  return optimizer_table[static_cast<std::size_t>(kind)];
}
[[nodiscard]] constexpr auto names_of(OptimizerKind /*key*/) {
  std::array<Named<OptimizerKind>, optimizer_table.size()> names{};
  for (std::size_t i = 0; i < names.size(); ++i)
    names[i] = {optimizer_table[i].kind, optimizer_table[i].name};
  return names;
}

struct OptimizerConfig {
  OptimizerKind name = OptimizerKind::adamw;
  double learning_rate = 1e-3;
  std::array<double, 2> betas = {0.9, 0.95};
  double epsilon = 1e-8;
  double weight_decay = 0.1;
  double momentum = 0.9;
  bool nesterov = false;
  double trust_coefficient = 0.001;
  bool scale_parameter = false;
  std::vector<std::string> groups{};  // "PATTERN: rate=X decay=Y" (param_rules.h)
  double layer_decay = 1;
  // Number of moments kept per weight.
  [[nodiscard]] int moments() const {
    const OptimizerTraits& traits = traits_of(name);
    return traits.moments - (traits.momentum_may_be_absent && momentum == 0 ? 1 : 0);
  }
  friend bool operator==(const OptimizerConfig&, const OptimizerConfig&) = default;
};

}  // namespace trireme
