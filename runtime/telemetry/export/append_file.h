// SPDX-License-Identifier: Apache-2.0
// An append-only file. Each flush is one write(); a failed one is undone, so the file always ends
// where a flush ended, whatever ends the process.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/output_directory.h"

namespace trireme {

class AppendFile {
 public:
  // Creates `name`, or appends to it unless `flags` have O_EXCL.
  AppendFile(const OutputDirectory& directory, const std::string& name, int flags = 0);

  void add(std::string_view bytes) { waiting_ += bytes; }
  // Raises ExitCode::internal if the write fails (disk full); the pending bytes are dropped.
  void flush();
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  FileDescriptor file_;
  std::string waiting_;
};

}  // namespace trireme
