// SPDX-License-Identifier: Apache-2.0
// The keys of a config.json of Hugging Face's libraries. What is neither read, nor known to change
// nothing, nor at the value that models here have, is refused by name.
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

  // Present, and not null.
  [[nodiscard]] const Json* find(std::string_view key) const;
  // Present, or null.
  [[nodiscard]] bool has(std::string_view key) const;
  // Where the key is missing or null, `otherwise`.
  [[nodiscard]] std::string text(std::string_view key, const std::string& otherwise = "") const;
  [[nodiscard]] bool flag(std::string_view key, bool otherwise) const;
  [[nodiscard]] double number(std::string_view key, double otherwise) const;
  // Raise where it is missing or null.
  [[nodiscard]] double number(std::string_view key) const;
  [[nodiscard]] std::int64_t size(std::string_view key) const;
  // `missing` where it is missing, 0 where it is null.
  [[nodiscard]] std::int64_t size_or(std::string_view key, std::int64_t missing) const;
  // Where it is there it must have this value.
  void expect(std::string_view key, const Json& wanted, std::string_view ours) const;
  // Whatever its value, it changes nothing in this model.
  void ignore(std::string_view key) const { read_.emplace(key); }
  [[noreturn]] void refuse(std::string_view key, std::string_view what) const;
  // Refuses the first key that could change the model and that nobody has read.
  void expect_nothing_else() const;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  const Json& object_;
  std::string path_, where_;
  mutable std::set<std::string, std::less<>> read_;
};

namespace hugging_face {
// Raise where they name one that is none of `activation_names`, or no GELU.
[[nodiscard]] ops::ActivationKind read_activation(const HfKeys& keys, const char* key,
                                                  const char* missing);
[[nodiscard]] GeluForm read_gelu(const HfKeys& keys);
}  // namespace hugging_face

}  // namespace trireme
