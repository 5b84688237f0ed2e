// SPDX-License-Identifier: Apache-2.0
// A directory that files are written to, held by its descriptor. The way to it may lead through
// links (`runs -> /scratch/runs`): they are the user's. Inside of it none is followed, whoever has
// planted it there: files are made new, and what they are made from has a name that nobody knows
// before. Raises the error code that it was opened with; every error names the path.
#pragma once

#include <string>
#include <utility>

#include "runtime/base/file.h"

namespace trireme {

class OutputDirectory {
 public:
  OutputDirectory(std::string path, ExitCode code);

  // The directory `name` in it, made where it is missing. A link in its place is refused.
  [[nodiscard]] OutputDirectory subdirectory(const std::string& name) const;

  // A new file in the place of whatever file or link has the name. `flags`: open(2)'s, how it is
  // accessed.
  [[nodiscard]] FileDescriptor create(const std::string& name, int flags) const;
  // The regular file of that name as it is, made where it is missing if `flags` have O_CREAT. A
  // link, symbolic or hard, a pipe or a device in its place is refused.
  [[nodiscard]] FileDescriptor open(const std::string& name, int flags) const;
  // The same without a look at what it is: not open, and errno, where that fails.
  [[nodiscard]] FileDescriptor try_open(const std::string& name, int flags) const;

  // A new file "<name>.<16 random hexadecimal digits>.tmp", and that name. It is locked (flock)
  // while its descriptor is open: how a temporary in use is told from one that a kill left.
  [[nodiscard]] std::pair<std::string, FileDescriptor> create_temporary(
      const std::string& name) const;
  // Removes the temporaries that killed processes left, of files called `name`, or of all (""). One
  // whose lock cannot be asked for stays.
  void remove_dead_temporaries(const std::string& name) const;

  void rename(const std::string& from, const std::string& to) const;
  void remove(const std::string& name) const noexcept;
  // fsync
  void sync() const;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string path_of(const std::string& name) const { return path_ + "/" + name; }

 private:
  OutputDirectory(std::string path, ExitCode code, FileDescriptor directory)
      : path_(std::move(path)), code_(code), directory_(std::move(directory)) {}
  [[nodiscard]] FileDescriptor open_new(const std::string& name, int flags) const;

  std::string path_;
  ExitCode code_;
  FileDescriptor directory_;
};

// ExitCode `code` where a link, symbolic or hard, stands at `path`: for what would be written
// through it, with what to do about it.
void refuse_link(const std::string& path, ExitCode code);
// The same of an open file that has more than one name.
void refuse_second_name(const FileDescriptor& file, const std::string& path, ExitCode code);

}  // namespace trireme
