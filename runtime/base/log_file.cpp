// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/log_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <ctime>

namespace trireme::log {
namespace {

constexpr std::size_t max_remembered = 64 << 10;

// "[2026-11-22 12:01:02.345] [info] [3] [data] ", equal to spdlog's pattern in log.cpp.
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

}  // namespace

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

}  // namespace trireme::log
