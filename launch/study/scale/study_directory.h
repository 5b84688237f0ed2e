// SPDX-License-Identifier: Apache-2.0
// The directory of a study: it holds one study, which one process runs at a time.
#pragma once

#include <span>
#include <string>
#include <utility>

#include "runtime/base/file.h"

namespace trireme::scale {

class StudyDirectory {
 public:
  // Makes DIRECTORY/runs, takes the lock that the object holds until its end, and writes study.json
  // where there is none. Raises ExitCode::config where another process holds the lock, where the
  // directory holds a study and `resume` is false, and where it holds one of another `identity`,
  // naming what differs.
  StudyDirectory(const std::string& directory,
                 std::span<const std::pair<std::string, std::string>> identity, bool resume);

 private:
  FileDescriptor lock_;
};

}  // namespace trireme::scale
