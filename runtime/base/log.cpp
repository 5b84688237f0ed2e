// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string>

namespace trireme::log {
namespace {

std::atomic<int> rank_of_process{0};

spdlog::level::level_enum level_for(int rank) {
  const auto usual = rank == 0 ? spdlog::level::info : spdlog::level::warn;
  const char* const wanted = std::getenv("TRIREME_LOG");
  if (wanted == nullptr) return usual;
  // spdlog reads every unknown word as "off"; a misspelled level must not hide errors.
  const auto level = spdlog::level::from_str(wanted);
  return level == spdlog::level::off && std::string_view(wanted) != "off" ? usual : level;
}

void configure(spdlog::logger& logger, int rank) {
  logger.set_level(level_for(rank));
  logger.set_pattern(fmt::format("[%H:%M:%S.%e] [{}] [%n] %^%v%$", rank));
}

}  // namespace

void initialize(int rank) {
  rank_of_process = rank;
  spdlog::apply_all(
      [rank](const std::shared_ptr<spdlog::logger>& logger) { configure(*logger, rank); });
}

spdlog::logger& get(std::string_view subsystem) {
  static std::mutex guard;
  const std::lock_guard lock(guard);
  const std::string name(subsystem);
  auto logger = spdlog::get(name);
  if (!logger) {
    logger = spdlog::stderr_color_mt(name);
    configure(*logger, rank_of_process);
  }
  return *logger;
}

}  // namespace trireme::log
