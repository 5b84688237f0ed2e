// SPDX-License-Identifier: Apache-2.0
// The end of a growing file of any size: its present content, then appended text.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/file.h"

namespace trireme::runs {

class FileTail {
 public:
  // Begins with the last `window` bytes; if they contain no complete line, with more, up to
  // `longest`.
  explicit FileTail(std::string path, std::uint64_t window = 128 << 10,
                    std::uint64_t longest = std::uint64_t{64} << 20);

  enum class Change : std::uint8_t { none, added, another, gone };
  // Calls `line` for every new complete line, without its end. `another`: the content read before
  // is gone (a new or truncated file, or so much more that some was skipped), and `begin` is called
  // before the lines of the new tail, also if the file is gone. Reopens the file each time, because
  // network file systems update it on open. Never raises: an unreadable file counts as gone.
  Change poll(const std::function<void()>& begin,
              const std::function<void(std::string_view)>& line);

  [[nodiscard]] bool exists() const { return exists_; }
  // Why an existing file cannot be read; empty if it can.
  [[nodiscard]] const std::string& problem() const { return problem_; }
  // Modification time since 1970.
  [[nodiscard]] double written() const { return written_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  // Whether the tail skipped earlier lines.
  [[nodiscard]] bool begins_within() const { return first_byte_ > 0; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  [[nodiscard]] bool open(FileDescriptor& file);
  // Sets the start of reading to a line start.
  void find_begin(const FileDescriptor& file);
  void read_lines(const FileDescriptor& file, const std::function<void(std::string_view)>& line);

  std::string path_;
  std::uint64_t window_, longest_;
  std::uint64_t size_ = 0, next_ = 0, first_byte_ = 0;
  ino_t inode_ = 0;
  dev_t device_ = 0;
  double written_ = 0;
  bool exists_ = false, begun_ = false;
  std::string problem_;
};

// The last bytes of a file, from a line start, including an incomplete last line; empty if it
// cannot be read.
[[nodiscard]] std::string end_of_file(const std::string& path, std::uint64_t bytes = 64 << 10);

}  // namespace trireme::runs
