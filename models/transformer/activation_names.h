// SPDX-License-Identifier: Apache-2.0
// Names of activations in configs and in Hugging Face's config.json.
#pragma once

#include <array>
#include <string_view>

#include "runtime/config/choices.h"
#include "runtime/ops/elementwise/activation.h"

namespace trireme {

namespace ops {
[[nodiscard]] constexpr auto names_of(ActivationKind /*key*/) {
  return std::to_array<Named<ActivationKind>>({{ActivationKind::gelu_tanh, "gelu_tanh"},
                                               {ActivationKind::gelu_exact, "gelu_exact"},
                                               {ActivationKind::silu, "silu"},
                                               {ActivationKind::relu2, "relu2"}});
}
}  // namespace ops

// model.gelu, for families that only have GELU.
enum class GeluForm : std::uint8_t { exact, tanh };
[[nodiscard]] constexpr auto names_of(GeluForm /*key*/) {
  return std::to_array<Named<GeluForm>>({{GeluForm::exact, "exact"}, {GeluForm::tanh, "tanh"}});
}
[[nodiscard]] constexpr ops::ActivationKind activation_of(GeluForm form) {
  return form == GeluForm::exact ? ops::ActivationKind::gelu_exact : ops::ActivationKind::gelu_tanh;
}

namespace hugging_face {

// Hugging Face's names. If one kind has several, export writes the first.
inline constexpr auto activation_names = std::to_array<Named<ops::ActivationKind>>(
    {{ops::ActivationKind::gelu_tanh, "gelu_new"},
     {ops::ActivationKind::gelu_tanh, "gelu_pytorch_tanh"},
     {ops::ActivationKind::gelu_tanh, "gelu_fast"},
     {ops::ActivationKind::gelu_tanh, "gelu_accurate"},
     {ops::ActivationKind::gelu_tanh, "gelu_python_tanh"},
     {ops::ActivationKind::gelu_exact, "gelu"},
     {ops::ActivationKind::gelu_exact, "gelu_python"},
     {ops::ActivationKind::silu, "silu"},
     {ops::ActivationKind::silu, "swish"},
     {ops::ActivationKind::relu2, "relu2"}});

[[nodiscard]] constexpr std::string_view activation_name(ops::ActivationKind kind) {
  for (const auto& named : activation_names) {
    if (named.value == kind) return named.name;
  }
  return "?";
}

}  // namespace hugging_face
}  // namespace trireme
