// SPDX-License-Identifier: Apache-2.0
// A value of a campaign file, checked against its key's type.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/config/yaml/document.h"

namespace trireme::campaign {

class Value {
 public:
  // `place`: "campaign.yaml:3: nodes.min", the prefix of messages. `node` must outlive it.
  Value(std::string place, const config::Node& node) : place_(std::move(place)), node_(node) {}

  // Each raises ExitCode::config for a value of another type.
  [[nodiscard]] std::int64_t integer(std::int64_t low, std::int64_t high) const;
  [[nodiscard]] double number(double low, double high) const;
  [[nodiscard]] bool boolean() const;
  [[nodiscard]] std::string text() const;                // not empty
  [[nodiscard]] std::vector<std::string> texts() const;  // a list of non-empty texts
  [[nodiscard]] bool is_list() const { return node_.kind == config::Node::Kind::list; }

  [[noreturn]] void refuse(const std::string& message) const;

 private:
  [[noreturn]] void wrong_type(const char* expected) const;

  std::string place_;
  const config::Node& node_;
};

}  // namespace trireme::campaign
