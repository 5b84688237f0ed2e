// SPDX-License-Identifier: Apache-2.0
// Reads lines of a file of any size in the memory of one line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/file.h"

namespace trireme {

class LineReader {
 public:
  // Raises `code`, with the path and the reason, if the file cannot be read or is not a file.
  explicit LineReader(std::string path, std::size_t longest = std::size_t{16} << 20,
                      ExitCode code = ExitCode::data);

  // The next complete line without its end; valid until the next call. Nothing at the current end
  // of the file; a run may append more.
  [[nodiscard]] std::optional<std::string_view> next();
  // Number of the last line, from 1.
  [[nodiscard]] std::int64_t number() const { return number_; }
  // Number of skipped lines, longer than `longest` bytes.
  [[nodiscard]] std::int64_t too_long() const { return too_long_; }
  // Whether bytes follow the last complete line: a run is writing, or was killed.
  [[nodiscard]] bool torn_end() const { return torn_end_; }

 private:
  [[nodiscard]] bool fill();
  [[nodiscard]] bool skip_hole();

  std::string path_;
  ExitCode code_;
  FileDescriptor file_;
  std::size_t longest_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;
  std::int64_t number_ = 0, too_long_ = 0;
  bool torn_end_ = false, passing_over_ = false;
};

}  // namespace trireme
