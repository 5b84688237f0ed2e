// SPDX-License-Identifier: Apache-2.0
// A directory that appears complete or not at all.
#pragma once

#include <string>

namespace trireme {

// Work goes to "<target>.partial-<pid>-<host>" beside the target; commit() syncs it and gives it
// its name, in one rename. Without commit() the target is as it was before, and the destructor
// removes the work.
class StagedDirectory {
 public:
  // An existing, non-empty target is refused (ExitCode::config), unless `replace` is set and it
  // holds nothing but data sets. Parent directories are made.
  StagedDirectory(std::string target, bool replace);
  ~StagedDirectory();
  StagedDirectory(const StagedDirectory&) = delete;
  StagedDirectory& operator=(const StagedDirectory&) = delete;

  [[nodiscard]] const std::string& path() const { return stage_; }
  // Makes a subdirectory and gives its path.
  [[nodiscard]] std::string add(const std::string& name) const;
  void commit();

 private:
  std::string target_;
  std::string stage_;
  bool replace_;
};

}  // namespace trireme
