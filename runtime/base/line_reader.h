// SPDX-License-Identifier: Apache-2.0
// Lines of a file of any size, in the memory of one of them.
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
  // Raises `code`, with the path and the reason, where the file cannot be read or is none.
  explicit LineReader(std::string path, std::size_t longest = std::size_t{16} << 20,
                      ExitCode code = ExitCode::data);

  // The next whole line without its end; good until the next call. Nothing at the end of the file
  // as it was when it was reached: a run may append more.
  [[nodiscard]] std::optional<std::string_view> next();
  // Of the last line, from 1.
  [[nodiscard]] std::int64_t number() const { return number_; }
  // Lines over `longest` bytes, which were passed over.
  [[nodiscard]] std::int64_t too_long() const { return too_long_; }
  // Bytes behind the last line's end: half a line of a run that writes, or was killed.
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
