// SPDX-License-Identifier: Apache-2.0
// The end of a file that somebody writes, of any size: what stands there now, then what is added.
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
  // Begins with the last `window` bytes; where no whole line ends in them, with more, up to
  // `longest`.
  explicit FileTail(std::string path, std::uint64_t window = 128 << 10,
                    std::uint64_t longest = std::uint64_t{64} << 20);

  enum class Change : std::uint8_t { none, added, another, gone };
  // Calls `line` for every whole line that is new, without its end. `another`: what was read before
  // is no longer there (a new file, one that was cut, or so much more that it was left out), and
  // `begin` is called before the lines of the new tail, as where the file is gone. Opens the file
  // anew each time: servers hand on what others wrote when a file is opened. Nothing raises: what
  // cannot be read is gone.
  Change poll(const std::function<void()>& begin,
              const std::function<void(std::string_view)>& line);

  [[nodiscard]] bool exists() const { return exists_; }
  // Why a file that is there cannot be read; empty where it can.
  [[nodiscard]] const std::string& problem() const { return problem_; }
  // Since 1970, when it was last written.
  [[nodiscard]] double written() const { return written_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  // Whether the tail left out lines in front of it.
  [[nodiscard]] bool begins_within() const { return first_byte_ > 0; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  [[nodiscard]] bool open(FileDescriptor& file);
  // Sets where reading begins: behind the end of a line.
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

// What lies at `offset`, at most `bytes`; less at the end, nothing where it cannot be read.
[[nodiscard]] std::string bytes_at(const FileDescriptor& file, std::uint64_t offset,
                                   std::uint64_t bytes);
// The last bytes of a file, from the beginning of a line, with what is torn behind the last one;
// empty where it cannot be read.
[[nodiscard]] std::string end_of_file(const std::string& path, std::uint64_t bytes = 64 << 10);

}  // namespace trireme::runs
