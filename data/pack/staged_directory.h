// SPDX-License-Identifier: Apache-2.0
// A directory that is created atomically.
#pragma once

#include <string>

namespace trireme {

// Work goes to "<target>.partial-<pid>-<host>" beside the target; commit() syncs it and renames it.
// Without commit() the target is unchanged, and the destructor removes the work.
class StagedDirectory {
 public:
  // Refuses an existing, non-empty target (ExitCode::config), unless `replace` is set and it holds
  // only data sets. Makes parent directories.
  StagedDirectory(std::string target, bool replace);
  ~StagedDirectory();
  StagedDirectory(const StagedDirectory&) = delete;
  StagedDirectory& operator=(const StagedDirectory&) = delete;

  [[nodiscard]] const std::string& path() const { return stage_; }
  // Makes a subdirectory and returns its path.
  [[nodiscard]] std::string add(const std::string& name) const;
  void commit();

 private:
  std::string target_;
  std::string stage_;
  bool replace_;
};

}  // namespace trireme
