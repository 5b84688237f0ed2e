// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/line_reader.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace trireme {

LineReader::LineReader(std::string path, std::size_t longest, ExitCode code)
    : path_(std::move(path)),
      code_(code),
      file_(open_regular_file(path_, code)),
      longest_(longest),
      buffer_(std::min(longest, std::size_t{1} << 20)) {}

// Skips a hole of a sparse file, which has no line end; returns whether there was one.
bool LineReader::skip_hole() {
  const off_t at = ::lseek(file_.get(), 0, SEEK_CUR);
  const off_t data = ::lseek(file_.get(), at, SEEK_DATA);
  if (data < 0 && errno == ENXIO) return ::lseek(file_.get(), 0, SEEK_END) > at;
  return data > at;
}

// False at the end of the file. First drops consumed bytes; the buffer grows up to the longest
// line.
bool LineReader::fill() {
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= std::exchange(begin_, 0);
  if (end_ == buffer_.size()) {
    if (buffer_.size() < longest_ && !skip_hole()) {
      buffer_.resize(std::min(2 * buffer_.size(), longest_));
    } else {
      passing_over_ = true;
      end_ = 0;
    }
  }
  if (passing_over_) static_cast<void>(skip_hole());
  ssize_t bytes = 0;
  do {
    bytes = ::read(file_.get(), buffer_.data() + end_, buffer_.size() - end_);
  } while (bytes < 0 && errno == EINTR);
  if (bytes < 0) fail(code_, "{}: cannot be read: {}", path_, std::strerror(errno));
  end_ += static_cast<std::size_t>(bytes);
  return bytes > 0;
}

std::optional<std::string_view> LineReader::next() {
  for (std::size_t looked = 0;;) {
    const std::string_view have(buffer_.data() + begin_, end_ - begin_);
    const std::size_t size = have.find('\n', std::min(looked, have.size()));
    if (size == std::string_view::npos) {
      const bool filled = fill();
      looked = passing_over_ ? 0 : have.size();
      if (filled) continue;
      torn_end_ = passing_over_ || end_ > begin_;
      return {};
    }
    begin_ += size + 1;
    looked = 0;
    ++number_;
    if (!std::exchange(passing_over_, false)) return have.substr(0, size);
    ++too_long_;
  }
}

}  // namespace trireme
