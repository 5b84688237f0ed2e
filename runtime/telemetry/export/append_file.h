// SPDX-License-Identifier: Apache-2.0
// A file that only grows, a flush at a time: each is one write(), and one that fails is taken back,
// so that the file ends where a flush ended, whatever ends the process.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "runtime/base/output_directory.h"

namespace trireme {

class AppendFile {
 public:
  // New where `name` is not there, or `flags` have O_EXCL; else it goes on behind what is there.
  AppendFile(const OutputDirectory& directory, const std::string& name, int flags = 0);

  void add(std::string_view bytes) { waiting_ += bytes; }
  // Raises ExitCode::internal where the disk is full or the like; what waited is given up.
  void flush();
  // What is behind the first `bytes` goes; nothing may wait.
  void truncate(std::uint64_t bytes);
  // With what waits.
  [[nodiscard]] std::uint64_t size() const { return written_ + waiting_.size(); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  FileDescriptor file_;
  std::uint64_t written_ = 0;
  std::string waiting_;
};

// When to flush: files are read while a run writes them, but a write for each step would cost more
// than all the rest of it.
class FlushTimer {
 public:
  explicit FlushTimer(std::chrono::milliseconds every) : every_(every) {}
  // True once in `every`, at the first call too.
  [[nodiscard]] bool due() {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) return false;
    next_ = now + every_;
    return true;
  }

 private:
  std::chrono::milliseconds every_;
  std::chrono::steady_clock::time_point next_{};
};

}  // namespace trireme
