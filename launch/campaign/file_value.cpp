// SPDX-License-Identifier: Apache-2.0
#include "launch/campaign/file_value.h"

#include "runtime/base/error.h"
#include "runtime/config/yaml/scalar.h"
#include "runtime/config/yaml/text_check.h"

namespace trireme::campaign {

using config::Node;
using config::Parse;

void Value::refuse(const std::string& message) const {
  fail(ExitCode::config, "{}: {}", place_, message);
}

void Value::wrong_type(const char* expected) const {
  refuse(fmt::format("expected {}, found {}", expected, config::describe(node_)));
}

std::int64_t Value::integer(std::int64_t low, std::int64_t high) const {
  if (node_.kind != Node::Kind::scalar || node_.quoted) wrong_type("an integer");
  const auto parsed = config::parse_integer(node_.text);
  if (parsed.state == Parse::malformed) wrong_type("an integer");
  if (parsed.state == Parse::too_large || parsed.value < low || parsed.value > high)
    refuse(fmt::format("{} is out of range; allowed: {} to {}", config::printable(node_.text), low,
                       high));
  return parsed.value;
}

double Value::number(double low, double high) const {
  if (node_.kind != Node::Kind::scalar || node_.quoted) wrong_type("a number");
  const auto parsed = config::parse_number(node_.text);
  if (parsed.state == Parse::malformed) wrong_type("a number");
  if (parsed.state == Parse::too_large || parsed.value < low || parsed.value > high) {
    refuse(fmt::format("{} is out of range; allowed: {:g} to {:g}", config::printable(node_.text),
                       low, high));
  }
  return parsed.value;
}

bool Value::boolean() const {
  const auto parsed = node_.kind == Node::Kind::scalar && !node_.quoted
                          ? config::parse_boolean(node_.text)
                          : std::nullopt;
  if (!parsed) wrong_type("true or false");
  return *parsed;
}

std::string Value::text() const {
  if (node_.kind != Node::Kind::scalar) wrong_type("text");
  if (node_.text.empty()) refuse("must not be empty; remove the key to leave it out");
  if (!config::is_printable(node_.text)) refuse("contains control characters");
  return node_.text;
}

std::vector<std::string> Value::texts() const {
  if (node_.kind == Node::Kind::scalar) return {text()};
  if (node_.kind != Node::Kind::list) wrong_type("a list of texts");
  if (node_.items.empty()) refuse("is an empty list; remove the key to leave it out");
  std::vector<std::string> all;
  for (const Node& item : node_.items)
    all.push_back(Value(place_, item).text());
  return all;
}

}  // namespace trireme::campaign
