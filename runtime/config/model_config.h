// SPDX-License-Identifier: Apache-2.0
// The config's `model` section: the family name and the options of every family, whose types belong
// to the module of the models.
#pragma once

#include <any>
#include <map>
#include <string>
#include <typeindex>

namespace trireme {

class ModelConfig {
 public:
  std::string family;  // a name in the key table; empty: its first family

  // The options of one family; its defaults if not set.
  template <typename Options>
  [[nodiscard]] const Options& as() const {
    static const Options defaults{};
    const auto found = parts_.find(typeid(Options));
    return found == parts_.end() ? defaults : *std::any_cast<Options>(&found->second.value);
  }
  template <typename Options>
  [[nodiscard]] Options& as() {
    Part& part = parts_[typeid(Options)];
    if (!part.value.has_value()) part = {Options{}, &equal<Options>};
    return *std::any_cast<Options>(&part.value);
  }

  friend bool operator==(const ModelConfig& a, const ModelConfig& b) {
    return a.family == b.family && a.within(b) && b.within(a);
  }

 private:
  struct Part {
    std::any value;
    bool (*equal)(const std::any& value, const ModelConfig& other) = nullptr;
  };
  template <typename Options>
  static bool equal(const std::any& value, const ModelConfig& other) {
    return *std::any_cast<Options>(&value) == other.as<Options>();
  }
  [[nodiscard]] bool within(const ModelConfig& other) const {
    for (const auto& [type, part] : parts_) {
      if (!part.equal(part.value, other)) return false;
    }
    return true;
  }

  std::map<std::type_index, Part> parts_;
};

}  // namespace trireme
