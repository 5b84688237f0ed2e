// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "runtime/base/environment.h"
#include "runtime/base/terminal.h"

namespace trireme::log {
namespace {

std::atomic<int> rank_of_process{0};
std::atomic<bool> details_shown{false};

// The file of keep_in(), a copy of the console's output with details. One per process; all loggers
// write to it. Buffers a few pages of lines until it is opened.
class LogFile : public spdlog::sinks::base_sink<std::mutex> {
 public:
  [[nodiscard]] static const std::shared_ptr<LogFile>& of_process();

  void open(const std::string& path, bool create);
  // One write() per line, so lines of several processes do not mix on a local file system.
  void append(spdlog::level::level_enum level, int rank, std::string_view subsystem,
              std::string_view line) const noexcept;

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override;
  void flush_() override {}

 private:
  std::atomic<int> descriptor_ = -1;  // stays open: any thread may be writing
  std::string remembered_;
};

constexpr std::size_t max_remembered = 64 << 10;

// "[2026-11-22 12:01:02.345] [info] [3] [data] ", equal to the pattern of line_format().
std::string_view head_of_line(spdlog::level::level_enum level, int rank, std::string_view subsystem,
                              std::array<char, 128>& to) {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto part = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch());
  std::tm local{};
  ::localtime_r(&seconds, &local);
  std::array<char, 32> date{};
  const std::size_t length = std::strftime(date.data(), date.size(), "%Y-%m-%d %H:%M:%S", &local);
  const spdlog::string_view_t name = spdlog::level::to_string_view(level);
  const auto end = fmt::format_to_n(to.data(), to.size(), "[{}.{:03}] [{}] [{}] [{}] ",
                                    std::string_view(date.data(), length), part.count() % 1000,
                                    std::string_view(name.data(), name.size()), rank, subsystem);
  return {to.data(), std::min(end.size, to.size())};
}

const std::shared_ptr<LogFile>& LogFile::of_process() {
  static const auto file = std::make_shared<LogFile>();
  return file;
}

void LogFile::open(const std::string& path, bool create) {
  // Does not follow links of other users, symbolic or hard, or block on a FIFO.
  const int flags = O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  const int opened = ::open(path.c_str(), create ? flags | O_CREAT : flags, 0666);
  struct stat status {};
  if (opened >= 0 &&
      (::fstat(opened, &status) != 0 || !S_ISREG(status.st_mode) || status.st_nlink > 1)) {
    ::close(opened);
    return;
  }
  const std::lock_guard lock(mutex_);
  const int before = descriptor_.exchange(opened);
  if (before >= 0) ::close(before);
  if (opened >= 0) static_cast<void>(!::write(opened, remembered_.data(), remembered_.size()));
  remembered_.clear();
}

void LogFile::append(spdlog::level::level_enum level, int rank, std::string_view subsystem,
                     std::string_view line) const noexcept {
  const int descriptor = descriptor_;
  if (descriptor < 0) return;
  std::array<char, 128> room;
  const std::string_view head = head_of_line(level, rank, subsystem, room);
  char newline = '\n';
  const std::array<iovec, 3> parts = {{{const_cast<char*>(head.data()), head.size()},
                                       {const_cast<char*>(line.data()), line.size()},
                                       {&newline, 1}}};
  static_cast<void>(!::writev(descriptor, parts.data(), static_cast<int>(parts.size())));
}

void LogFile::sink_it_(const spdlog::details::log_msg& message) {
  spdlog::memory_buf_t text;
  formatter_->format(message, text);
  if (descriptor_ >= 0) {
    static_cast<void>(!::write(descriptor_, text.data(), text.size()));
  } else if (remembered_.size() + text.size() <= max_remembered) {
    remembered_.append(text.data(), text.size());
  }
}

bool is_level(std::string_view word) {
  return word == "off" || spdlog::level::from_str(std::string(word)) != spdlog::level::off;
}

spdlog::level::level_enum level_for(int rank) {
  const auto of_rank_0 = details_shown ? spdlog::level::debug : spdlog::level::info;
  const auto usual = rank == 0 ? of_rank_0 : spdlog::level::warn;
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
  const auto shown = level_for(rank);
  const auto kept = rank == 0 ? std::min(shown, spdlog::level::debug) : shown;
  logger.set_level(kept);
  logger.sinks()[0]->set_level(shown);
  LogFile::of_process()->set_level(kept);
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

void show_details() {
  details_shown = true;
  initialize(rank_of_process);
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
