// SPDX-License-Identifier: Apache-2.0
// The keys of a Hugging Face config.json. Refuses by name every key that is not read, not known to
// be irrelevant, and not at the value that our models have.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <string_view>

#include "models/transformer/activation_names.h"

namespace trireme {

// One object of the file. Reading a key marks it. Errors are ExitCode::config and name the file.
class HfKeys {
 public:
  using Json = nlohmann::json;
  HfKeys(const Json& object, std::string path, std::string where = "");

  // Present and not null.
  [[nodiscard]] const Json* find(std::string_view key) const;
  // Present, may be null.
  [[nodiscard]] bool has(std::string_view key) const;
  // `otherwise` if the key is missing or null.
  [[nodiscard]] std::string text(std::string_view key, const std::string& otherwise = "") const;
  [[nodiscard]] bool flag(std::string_view key, bool otherwise) const;
  [[nodiscard]] double number(std::string_view key, double otherwise) const;
  // Raises an error if it is missing or null.
  [[nodiscard]] double number(std::string_view key) const;
  [[nodiscard]] std::int64_t size(std::string_view key) const;
  // `missing` if it is missing, 0 if it is null.
  [[nodiscard]] std::int64_t size_or(std::string_view key, std::int64_t missing) const;
  // If present, it must have this value.
  void expect(std::string_view key, const Json& wanted, std::string_view ours) const;
  // Accepts any value: the key does not change this model.
  void ignore(std::string_view key) const { read_.emplace(key); }
  [[noreturn]] void refuse(std::string_view key, std::string_view what) const;
  // Refuses the first unread key that could change the model.
  void expect_nothing_else() const;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  const Json& object_;
  std::string path_, where_;
  mutable std::set<std::string, std::less<>> read_;
};

namespace hugging_face {
// Raises an error unless the name is in `activation_names`, or for GELU is a GELU.
[[nodiscard]] ops::ActivationKind read_activation(const HfKeys& keys, const char* key,
                                                  const char* missing);
[[nodiscard]] GeluForm read_gelu(const HfKeys& keys);
// Raises an error unless the activation (missing: silu) is SiLU, which `ours` needs.
void expect_silu(const HfKeys& keys, std::string_view ours);
// model.balance_loss of output_router_logits and router_aux_loss_coef: theirs takes the routed
// layers together, and sums the loads of a token's slots.
[[nodiscard]] double read_balance_loss(const HfKeys& keys, std::int64_t slots,
                                       std::int64_t routed_layers);

// Values of layer_types: layers with a window and without.
inline constexpr std::string_view local_layer = "sliding_attention",
                                  global_layer = "full_attention";
// The list of models in which every N-th layer is global; 0: none.
[[nodiscard]] std::string layer_types(std::int64_t layers, std::int64_t global_every);
// N from that list, `missing` without one. Raises an error for another order of layers.
[[nodiscard]] std::int64_t read_global_every(const HfKeys& keys, std::int64_t layers,
                                             std::int64_t missing);
}  // namespace hugging_face

}  // namespace trireme
