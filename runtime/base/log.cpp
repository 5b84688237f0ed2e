// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/base/environment.h"
#include "runtime/base/log_file.h"
#include "runtime/base/terminal.h"

namespace trireme::log {
namespace {

std::atomic<int> rank_of_process{0};

bool is_level(std::string_view word) {
  return word == "off" || spdlog::level::from_str(std::string(word)) != spdlog::level::off;
}

spdlog::level::level_enum level_for(int rank) {
  const auto usual = rank == 0 ? spdlog::level::info : spdlog::level::warn;
  const char* const wanted = std::getenv("TRIREME_LOG");
  if (wanted == nullptr) return usual;
  // spdlog maps every unknown word to "off"; a misspelled level must not hide errors.
  return is_level(wanted) ? spdlog::level::from_str(wanted) : usual;
}

// Escapes the message, which may contain names from untrusted files.
class ShownMessage final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm& /*time*/,
              spdlog::memory_buf_t& to) override {
    const std::string text = for_people({message.payload.data(), message.payload.size()});
    to.append(text.data(), text.data() + text.size());
  }
  [[nodiscard]] std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<ShownMessage>();
  }
};

std::unique_ptr<spdlog::formatter> line_format(int rank, std::string_view start) {
  auto format = std::make_unique<spdlog::pattern_formatter>();
  format->add_flag<ShownMessage>('*').set_pattern(
      fmt::format("{}[%Y-%m-%d %H:%M:%S.%e] [%l] [{}] [%n] %^%*%$", start, rank));
  return format;
}

void configure(spdlog::logger& logger, int rank) {
  logger.set_level(level_for(rank));
  logger.set_formatter(line_format(rank, ""));
  logger.sinks()[0]->set_formatter(line_format(rank, line_start(STDERR_FILENO)));
}

// https://no-color.org
spdlog::color_mode color_mode() {
  const auto value_of = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string_view(value == nullptr ? "" : value);
  };
  const bool plain = !value_of("NO_COLOR").empty() || value_of("TERM") == "dumb";
  return plain ? spdlog::color_mode::never : spdlog::color_mode::automatic;
}

}  // namespace

void initialize(int rank) {
  rank_of_process = rank;
  spdlog::apply_all(
      [rank](const std::shared_ptr<spdlog::logger>& logger) { configure(*logger, rank); });
  const char* const wanted = std::getenv("TRIREME_LOG");
  if (rank == 0 && wanted != nullptr && !is_level(wanted))
    ignore_variable("TRIREME_LOG", "is not one of trace, debug, info, warn, error, critical, off");
}

spdlog::logger& get(std::string_view subsystem) {
  static std::mutex guard;
  const std::lock_guard lock(guard);
  const std::string name(subsystem);
  auto logger = spdlog::get(name);
  if (!logger) {
    logger = spdlog::stderr_color_mt(name, color_mode());
    logger->sinks().push_back(LogFile::of_process());
    configure(*logger, rank_of_process);
  }
  return *logger;
}

void keep_in(const std::string& path) {
  LogFile::of_process()->open(path, /*create=*/rank_of_process == 0);
}

void keep(spdlog::level::level_enum level, std::string_view subsystem,
          std::string_view lines) noexcept {
  while (!lines.empty()) {
    const auto end = std::min(lines.find('\n'), lines.size());
    LogFile::of_process()->append(level, rank_of_process, subsystem, lines.substr(0, end));
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
}

}  // namespace trireme::log
