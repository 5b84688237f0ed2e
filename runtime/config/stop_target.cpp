// SPDX-License-Identifier: Apache-2.0
#include "runtime/config/stop_target.h"

#include <fmt/format.h>

#include "runtime/config/yaml/scalar.h"

namespace trireme {

std::string stored_text(const std::optional<ReachedTarget>& reached) {
  return reached ? fmt::format("{} {}", reached->metric, reached->value) : "";
}

std::optional<ReachedTarget> reached_target(std::string_view stored) {
  const auto space = stored.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  const auto value = config::parse_number(std::string(stored.substr(space + 1)));
  if (value.state != config::Parse::ok) return std::nullopt;
  return ReachedTarget{std::string(stored.substr(0, space)), value.value};
}

std::string describe(const StopTarget& target, double value) {
  return fmt::format("{} {:.6g} is {}{} {}", target.metric, value,
                     target.passed_by(value) ? "" : "not ", target.below ? "below" : "above",
                     target.below.value_or(target.above.value_or(0)));
}

std::string describe(const StopTarget& target, const ReachedTarget& reached) {
  if (!reached.is_patience()) return describe(target, reached.value);
  return fmt::format("{} evaluations in a row set no new best", reached.value);
}

}  // namespace trireme
