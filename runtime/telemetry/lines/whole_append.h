// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/file.h"

namespace trireme {

// One write() to a file opened for appending. If the disk fills up, the partial write is undone, so
// the file always ends where a write ended, whatever ends the process. Then raises
// ExitCode::internal with the reason, followed by `advice`.
void append_whole(const FileDescriptor& file, const std::string& path, std::string_view bytes,
                  std::string_view advice = "");

}  // namespace trireme
