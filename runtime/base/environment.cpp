// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/environment.h"

#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <mutex>
#include <set>
#include <string>

#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

// The first of these variables that is set.
std::optional<int> first_number(std::initializer_list<const char*> names, int min) {
  for (const char* const name : names) {
    if (const auto value = environment_number(name, min, std::numeric_limits<int>::max()))
      return static_cast<int>(*value);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::int64_t> environment_number(const char* name, std::int64_t min,
                                               std::int64_t max) {
  const char* const value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  const std::string_view text = value;
  std::int64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && rest == text.data() + text.size() && number >= min && number <= max)
    return number;
  ignore_variable(name, fmt::format("is not a whole number from {} to {}", min, max));
  return std::nullopt;
}

void ignore_variable(const char* name, std::string_view reason) {
  static std::mutex guard;
  static std::set<std::string> told;
  constexpr std::size_t shown = 60;
  const std::lock_guard lock(guard);
  if (!told.insert(name).second) return;
  const char* const value = std::getenv(name);
  log::get("environment")
      .warn("{}={:.{}}: {}; it is ignored", name, value == nullptr ? "" : value, shown, reason);
}

std::optional<int> launched_rank() {
  return first_number({"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}, 0);
}

std::optional<int> launched_ranks() {
  return first_number({"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "PMI_SIZE"}, 1);
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) system_failed("gethostname", "this host");
  return name.data();
}

}  // namespace trireme
