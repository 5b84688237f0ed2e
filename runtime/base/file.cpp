// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace trireme {
FileDescriptor::~FileDescriptor() {
  if (is_open()) ::close(descriptor_);
}

void FileDescriptor::close(const std::string& path, ExitCode code) {
  if (!is_open()) return;
  // On Linux EINTR has closed the descriptor: closing again could close another thread's file.
  if (::close(std::exchange(descriptor_, -1)) != 0 && errno != EINTR) {
    write_failed("close", path, code);
  }
}

FileDescriptor open_for_reading(const std::string& path, ExitCode code) {
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) system_failed("open", path, code);
  return file;
}

FileDescriptor open_regular_file(const std::string& path, ExitCode code) {
  // O_NONBLOCK: opening a named pipe or a device must not block; it has no effect on files.
  constexpr int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  FileDescriptor file(::open(path.c_str(), flags));
  if (!file.is_open() && (errno == EMFILE || errno == ENFILE)) too_many_open_files(path);
  if (!file.is_open() && errno == ENOENT) fail(code, "{}: there is no such file (ENOENT)", path);
  if (!file.is_open() && errno == EACCES)
    fail(code, "{}: this user may not read it (EACCES); change its permissions", path);
  if (!file.is_open()) fail(code, "{}: cannot be opened: {}", path, std::strerror(errno));
  static_cast<void>(regular_file_size(file, path, code));
  return file;
}

void too_many_open_files(const std::string& path) {
  fail(ExitCode::internal,
       "{}: too many open files; raise the limit (`ulimit -n` shows it, a hard limit takes "
       "limits.conf or LimitNOFILE), or use fewer and larger files",
       path);
}

std::uint64_t regular_file_size(const FileDescriptor& file, const std::string& path,
                                ExitCode code) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) system_failed("fstat", path, code);
  if (S_ISDIR(status.st_mode)) fail(code, "{}: is not a regular file but a directory", path);
  if (!S_ISREG(status.st_mode)) refuse_irregular_file(path, code);
  return static_cast<std::uint64_t>(status.st_size);
}

void refuse_irregular_file(const std::string& path, ExitCode code) {
  fail(code, "{}: is not a regular file but a pipe or a device; copy its output into a file", path);
}

std::string read_whole_file(const std::string& path, std::uint64_t limit, ExitCode code) {
  const FileDescriptor file = open_regular_file(path, code);
  const std::uint64_t size = regular_file_size(file, path, code);
  if (size > limit) fail(code, "{}: is {} bytes long; the limit is {}", path, size, limit);
  std::string text(size, '\0');
  read_exactly(file, path, 0, std::as_writable_bytes(std::span(text)), code);
  return text;
}

std::optional<std::string> read_file_if_exists(const std::string& path, std::uint64_t limit,
                                               ExitCode code) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return {};
  return read_whole_file(path, limit, code);
}

std::string bytes_at(const FileDescriptor& file, std::uint64_t offset, std::uint64_t bytes) {
  std::string text(bytes, '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t part = ::pread(file.get(), text.data() + done, text.size() - done,
                                 static_cast<off_t>(offset + done));
    if (part < 0 && errno == EINTR) continue;
    if (part <= 0) break;
    done += static_cast<std::size_t>(part);
  }
  text.resize(done);
  return text;
}

void read_exactly(const FileDescriptor& file, const std::string& path, std::uint64_t offset,
                  std::span<std::byte> to, ExitCode code) {
  while (!to.empty()) {
    const ssize_t got = ::pread(file.get(), to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0) {
      if (errno == EINTR) continue;
      system_failed("pread", path, code);
    }
    if (got == 0) fail(code, "{}: ends at byte {}, {} bytes too early", path, offset, to.size());
    to = to.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

void write_fully(const FileDescriptor& file, const std::string& path,
                 std::span<const std::byte> data, ExitCode code) {
  while (!data.empty()) {
    const ssize_t put = ::write(file.get(), data.data(), data.size());
    if (put < 0) {
      if (errno == EINTR) continue;
      write_failed("write", path, code);
    }
    data = data.subspan(static_cast<std::size_t>(put));
  }
}

void write_fully_at(const FileDescriptor& file, const std::string& path, std::uint64_t offset,
                    std::span<const std::byte> data, ExitCode code) {
  while (!data.empty()) {
    const ssize_t put = ::pwrite(file.get(), data.data(), data.size(), static_cast<off_t>(offset));
    if (put < 0) {
      if (errno == EINTR) continue;
      write_failed("pwrite", path, code);
    }
    data = data.subspan(static_cast<std::size_t>(put));
    offset += static_cast<std::uint64_t>(put);
  }
}

void sync_path(const std::string& path, ExitCode code) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) system_failed("open", path, code);
  // Some network file systems cannot sync a directory and return EINVAL.
  if (::fsync(file.get()) != 0 && errno != EINVAL) write_failed("fsync", path, code);
}

std::string parent_directory(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

ExitCode code_of_failed_write(int error, ExitCode code) noexcept {
  const bool no_room = error == ENOSPC || error == EDQUOT;
  return no_room && code == ExitCode::config ? ExitCode::internal : code;
}

void write_failed(const std::string& call, const std::string& path, ExitCode code) {
  code = code_of_failed_write(errno, code);
  if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG) {
    const char* const reason = errno == ENOSPC ? "the disk is full (ENOSPC)"
                               : errno == EDQUOT
                                   ? "your disk quota is used up (EDQUOT)"
                                   : "the file size limit is reached (EFBIG, ulimit -f)";
    fail(code, "{}: {}; free space or choose another output directory", path, reason);
  }
  // Of the place, not of the disk or of this program.
  constexpr std::array of_place{EISDIR, EEXIST, ENOTDIR, ENAMETOOLONG, EROFS, EACCES, EPERM, ELOOP};
  if (std::ranges::find(of_place, errno) != of_place.end())
    fail(code, "{}: cannot be written: {}; move away what is there, or choose another place", path,
         errno == EEXIST ? "a directory or another file is there" : std::strerror(errno));
  system_failed(call, path, code);
}

}  // namespace trireme
