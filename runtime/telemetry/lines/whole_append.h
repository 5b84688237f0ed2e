// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/file.h"

namespace trireme {

// One write() to a file that was opened for appending, so that it ends where a write ended,
// whatever ends the process: where the disk fills up within the bytes, what is written of them is
// taken back. Raises ExitCode::internal then, with the reason and `advice` behind it.
void append_whole(const FileDescriptor& file, const std::string& path, std::string_view bytes,
                  std::string_view advice = "");

}  // namespace trireme
