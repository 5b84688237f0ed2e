// SPDX-License-Identifier: Apache-2.0
// An append-only file of lines. Rank 0 only.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/file.h"

namespace trireme {

// Whether a line, without its newline, is kept.
using KeepLine = std::function<bool(std::string_view line)>;
// Called for each dropped line.
using CutLine = std::function<void(std::string_view line)>;

// Each line is one write() to a file opened for appending, so a killed run leaves complete lines. A
// line that does not fit on the disk is removed and raises ExitCode::internal once; later calls do
// nothing, so a failing run does not repeat itself.
class LineFile {
 public:
  // A continued run keeps the lines up to the first that `keep` rejects; a new run, without `keep`,
  // has no file yet.
  LineFile(std::string path, const std::optional<KeepLine>& keep, const CutLine& cut = {});

  // `line` ends with its newline.
  void append(std::string_view line);
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  FileDescriptor file_;
  bool failed_ = false;
};

// UTC, as "2026-11-22T12:01:02.345Z".
[[nodiscard]] std::string timestamp_text(std::chrono::system_clock::time_point time);
// Parses such a text to seconds since 1970; empty if it is invalid.
[[nodiscard]] inline double seconds_since_1970(std::chrono::system_clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}
[[nodiscard]] std::optional<double> timestamp_seconds(std::string_view text);

// One write() to a file opened for appending. If the disk fills up, the partial write is undone, so
// the file always ends where a write ended, whatever ends the process. Then raises
// ExitCode::internal with the reason, followed by `advice`.
void append_whole(const FileDescriptor& file, const std::string& path, std::string_view bytes,
                  std::string_view advice = "");

}  // namespace trireme
