// SPDX-License-Identifier: Apache-2.0
#include "launch/run/file_tail.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace trireme::runs {

FileTail::FileTail(std::string path, std::uint64_t window, std::uint64_t longest)
    : path_(std::move(path)), window_(window), longest_(longest) {}

std::string end_of_file(const std::string& path, std::uint64_t bytes) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file.is_open() || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  const auto size = static_cast<std::uint64_t>(status.st_size);
  const std::uint64_t begin = size > bytes ? size - bytes : 0;
  std::string text = bytes_at(file, begin, size - begin);
  if (begin > 0) text.erase(0, text.find('\n') + 1);
  return text;
}

FileTail::Change FileTail::poll(const std::function<void()>& begin,
                                const std::function<void(std::string_view)>& line) {
  FileDescriptor file;
  const ino_t inode = inode_;
  const dev_t device = device_;
  if (!open(file)) {
    if (!std::exchange(begun_, false)) return Change::none;
    begin();
    return Change::gone;
  }
  // A restarted run truncates and appends: the byte before the new text detects it.
  const bool same = begun_ && inode == inode_ && device == device_ && size_ >= next_ &&
                    size_ - next_ <= longest_ &&
                    (next_ == 0 || bytes_at(file, next_ - 1, 1) == "\n");
  const std::uint64_t before = next_;
  if (!same) {
    begun_ = true;
    find_begin(file);
    begin();
  }
  read_lines(file, line);
  if (!same) return Change::another;
  return next_ > before ? Change::added : Change::none;
}

bool FileTail::open(FileDescriptor& file) {
  problem_.clear();
  // Opening a pipe without a writer would block.
  file = FileDescriptor(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  exists_ = file.is_open() || (errno != ENOENT && errno != ENOTDIR);
  if (!file.is_open()) {
    if (exists_) problem_ = std::strerror(errno);
    return false;
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    problem_ = "is not a regular file";
    return false;
  }
  inode_ = status.st_ino;
  device_ = status.st_dev;
  size_ = static_cast<std::uint64_t>(status.st_size);
  written_ = static_cast<double>(status.st_mtim.tv_sec) +
             1e-9 * static_cast<double>(status.st_mtim.tv_nsec);
  return true;
}

void FileTail::find_begin(const FileDescriptor& file) {
  for (std::uint64_t window = std::min(window_, longest_);;
       window = std::min(4 * window, longest_)) {
    first_byte_ = next_ = size_ > window ? size_ - window : 0;
    if (next_ == 0) return;
    const std::string text = bytes_at(file, next_ - 1, size_ - next_ + 1);
    const std::size_t end = text.find('\n');
    // The window starts at the first line end; a second one completes a line.
    const bool whole = end != std::string::npos && text.find('\n', end + 1) != std::string::npos;
    if (!whole && window < longest_) continue;
    next_ = end == std::string::npos ? size_ : next_ + end;
    return;
  }
}

void FileTail::read_lines(const FileDescriptor& file,
                          const std::function<void(std::string_view)>& line) {
  const std::string text = bytes_at(file, next_, size_ - next_);
  std::size_t from = 0;
  for (std::size_t end = 0; (end = text.find('\n', from)) != std::string::npos; from = end + 1)
    line(std::string_view(text).substr(from, end - from));
  next_ += from;
}

}  // namespace trireme::runs
