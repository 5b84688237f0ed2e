// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/export/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "runtime/telemetry/lines/whole_append.h"

namespace trireme {

AppendFile::AppendFile(const OutputDirectory& directory, const std::string& name, int flags)
    : path_(directory.path_of(name)),
      file_(directory.open(name, O_WRONLY | O_CREAT | O_APPEND | flags)),
      written_(regular_file_size(file_, path_, ExitCode::internal)) {}

void AppendFile::flush() {
  if (waiting_.empty()) return;
  const std::string bytes = std::exchange(waiting_, {});
  append_whole(file_, path_, bytes);
  written_ += bytes.size();
}

void AppendFile::truncate(std::uint64_t bytes) {
  if (::ftruncate(file_.get(), static_cast<off_t>(bytes)) != 0) system_failed("ftruncate", path_);
  written_ = bytes;
}

}  // namespace trireme
