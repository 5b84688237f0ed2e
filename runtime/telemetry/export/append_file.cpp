// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/export/append_file.h"

#include <fcntl.h>

#include <utility>

#include "runtime/telemetry/lines/whole_append.h"

namespace trireme {

AppendFile::AppendFile(const OutputDirectory& directory, const std::string& name, int flags)
    : path_(directory.path_of(name)),
      file_(directory.open(name, O_WRONLY | O_CREAT | O_APPEND | flags)) {}

void AppendFile::flush() {
  if (waiting_.empty()) return;
  append_whole(file_, path_, std::exchange(waiting_, {}));
}

}  // namespace trireme
