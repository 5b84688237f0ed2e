// SPDX-License-Identifier: Apache-2.0
// A file that only grows, a flush at a time: each is one write(), and one that fails is taken back,
// so that the file ends where a flush ended, whatever ends the process.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/output_directory.h"

namespace trireme {

class AppendFile {
 public:
  // New where `name` is not there, or `flags` have O_EXCL; else it goes on behind what is there.
  AppendFile(const OutputDirectory& directory, const std::string& name, int flags = 0);

  void add(std::string_view bytes) { waiting_ += bytes; }
  // Raises ExitCode::internal where the disk is full or the like; what waited is given up.
  void flush();
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  FileDescriptor file_;
  std::string waiting_;
};

}  // namespace trireme
