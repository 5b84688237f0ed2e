// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/output_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace trireme {
namespace {

constexpr mode_t file_mode = 0666;  // limited by the user's umask, like the next
constexpr mode_t directory_mode = 0777;
constexpr int directory_flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

constexpr std::string_view temporary_suffix = ".tmp";
constexpr std::size_t random_digits = 16;

std::string random_text(const std::string& path, ExitCode code) {
  std::uint64_t value = 0;
  if (::getrandom(&value, sizeof(value), 0) != sizeof(value))
    system_failed("getrandom", path, code);
  return fmt::format("{:0{}x}", value, random_digits);
}

bool is_temporary_of(std::string_view file, std::string_view name) {
  if (!file.ends_with(temporary_suffix)) return false;
  file.remove_suffix(temporary_suffix.size());
  if (file.size() < random_digits + 2) return false;  // room for a name and a dot
  const std::string_view digits = file.substr(file.size() - random_digits);
  file.remove_suffix(random_digits);
  return digits.find_first_not_of("0123456789abcdef") == std::string_view::npos &&
         file.back() == '.' && (name.empty() || file.substr(0, file.size() - 1) == name);
}

[[noreturn]] void refuse_as_link(const std::string& path, ExitCode code) {
  fail(code,
       "{}: is a symbolic link, and nothing is written through links inside an output directory; "
       "remove it, or make the directory itself a link",
       path);
}

// The owner of the other name could read the output.
void refuse_second_name(const struct stat& status, const std::string& path, ExitCode code) {
  if (!S_ISREG(status.st_mode) || status.st_nlink <= 1) return;
  fail(code,
       "{0}: is a hard link: writing would also change the file under its other name; remove it, "
       "or replace it by a copy (cp {0} {0}.copy && mv {0}.copy {0})",
       path);
}

}  // namespace

OutputDirectory::OutputDirectory(std::string path, ExitCode code)
    : path_(std::move(path)), code_(code), directory_(::open(path_.c_str(), directory_flags)) {
  if (!directory_.is_open()) write_failed("open", path_, code_);
}

OutputDirectory OutputDirectory::subdirectory(const std::string& name) const {
  const std::string path = path_of(name);
  if (::mkdirat(directory_.get(), name.c_str(), directory_mode) != 0 && errno != EEXIST)
    write_failed("mkdir", path, code_);
  FileDescriptor opened(::openat(directory_.get(), name.c_str(), directory_flags | O_NOFOLLOW));
  if (!opened.is_open()) {
    const int reason = errno;
    refuse_link(path, code_);
    errno = reason;
    system_failed("open", path, code_);
  }
  return {path, code_, std::move(opened)};
}

FileDescriptor OutputDirectory::open_new(const std::string& name, int flags) const {
  return FileDescriptor(::openat(directory_.get(), name.c_str(),
                                 flags | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, file_mode));
}

FileDescriptor OutputDirectory::create(const std::string& name, int flags) const {
  FileDescriptor file = open_new(name, flags);
  if (!file.is_open() && errno == EEXIST) {
    remove(name);
    file = open_new(name, flags);
  }
  if (!file.is_open()) write_failed("open", path_of(name), code_);
  return file;
}

FileDescriptor OutputDirectory::open(const std::string& name, int flags) const {
  const std::string path = path_of(name);
  FileDescriptor file = try_open(name, flags);
  if (!file.is_open() && errno == ELOOP) refuse_as_link(path, code_);
  if (!file.is_open() && errno == ENXIO) refuse_irregular_file(path, code_);
  if (!file.is_open()) write_failed("open", path, code_);
  static_cast<void>(regular_file_size(file, path, code_));
  refuse_second_name(file, path, code_);
  return file;
}

FileDescriptor OutputDirectory::try_open(const std::string& name, int flags) const {
  return FileDescriptor(::openat(directory_.get(), name.c_str(),
                                 flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
                                 file_mode));
}

std::pair<std::string, FileDescriptor> OutputDirectory::create_temporary(
    const std::string& name) const {
  while (true) {
    std::string temporary =
        fmt::format("{}.{}{}", name, random_text(path_of(name), code_), temporary_suffix);
    FileDescriptor file = open_new(temporary, O_WRONLY);
    if (!file.is_open() && errno == EEXIST) continue;
    if (!file.is_open()) write_failed("open", path_of(name), code_);
    // A process that removes dead ones may have been faster than the lock.
    struct stat status {};
    const bool taken = ::flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (::fstat(file.get(), &status) != 0) system_failed("fstat", path_of(temporary), code_);
    if (!taken && status.st_nlink > 0) return {std::move(temporary), std::move(file)};
  }
}

void OutputDirectory::remove_dead_temporaries(const std::string& name) const {
  const int again = ::openat(directory_.get(), ".", directory_flags);
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(again < 0 ? nullptr : ::fdopendir(again),
                                                    ::closedir);
  if (!entries) system_failed("opendir", path_, code_);
  std::vector<std::string> found;
  while (const dirent* const entry = ::readdir(entries.get())) {
    if (is_temporary_of(entry->d_name, name)) found.emplace_back(entry->d_name);
  }
  for (const std::string& temporary : found) {
    const FileDescriptor file = try_open(temporary, O_WRONLY);
    if (file.is_open() && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0) remove(temporary);
  }
}

void OutputDirectory::rename(const std::string& from, const std::string& to) const {
  if (::renameat(directory_.get(), from.c_str(), directory_.get(), to.c_str()) != 0)
    write_failed("rename", path_of(to), code_);
}

void OutputDirectory::remove(const std::string& name) const noexcept {
  ::unlinkat(directory_.get(), name.c_str(), 0);
}

void OutputDirectory::sync() const {
  // Some network file systems cannot sync a directory and return EINVAL.
  if (::fsync(directory_.get()) != 0 && errno != EINVAL) write_failed("fsync", path_, code_);
}

void refuse_link(const std::string& path, ExitCode code) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return;
  if (S_ISLNK(status.st_mode)) refuse_as_link(path, code);
  refuse_second_name(status, path, code);
}

void refuse_second_name(const FileDescriptor& file, const std::string& path, ExitCode code) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) system_failed("fstat", path, code);
  refuse_second_name(status, path, code);
}

}  // namespace trireme
