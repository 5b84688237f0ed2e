// SPDX-License-Identifier: Apache-2.0
// A directory for output files, held by descriptor. Links in the path to it are followed (`runs ->
// /scratch/runs`): they are the user's. Links inside it are never followed, as others may have
// planted them: files are created new, from temporaries with unpredictable names. Raises the error
// code that it was opened with; every error names the path.
#pragma once

#include <string>
#include <utility>

#include "runtime/base/file.h"

namespace trireme {

class OutputDirectory {
 public:
  OutputDirectory(std::string path, ExitCode code);

  // Its subdirectory `name`, made if missing. Refuses a link of that name.
  [[nodiscard]] OutputDirectory subdirectory(const std::string& name) const;

  // Creates a new file, replacing a file or link of that name. `flags`: access flags of open(2).
  [[nodiscard]] FileDescriptor create(const std::string& name, int flags) const;
  // Opens the regular file of that name, made if missing and `flags` have O_CREAT. Refuses a link
  // (symbolic or hard), a pipe or a device.
  [[nodiscard]] FileDescriptor open(const std::string& name, int flags) const;
  // The same without checking the file type; on failure returns a closed descriptor and sets errno.
  [[nodiscard]] FileDescriptor try_open(const std::string& name, int flags) const;

  // Creates a file "<name>.<16 random hexadecimal digits>.tmp"; returns its name too. It is locked
  // (flock) while its descriptor is open, which tells a temporary in use from a dead one.
  [[nodiscard]] std::pair<std::string, FileDescriptor> create_temporary(
      const std::string& name) const;
  // Removes temporaries of killed processes, for files called `name`, or all (""). Keeps those
  // whose lock cannot be tested.
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

// Raises ExitCode `code`, with the fix, if `path` is a symbolic or hard link, to avoid writing
// through it.
void refuse_link(const std::string& path, ExitCode code);
// The same for an open file with more than one name.
void refuse_second_name(const FileDescriptor& file, const std::string& path, ExitCode code);

}  // namespace trireme
