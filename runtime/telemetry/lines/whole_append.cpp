// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/lines/whole_append.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace trireme {

void append_whole(const FileDescriptor& file, const std::string& path, std::string_view bytes,
                  std::string_view advice) {
  ssize_t put = 0;
  do {
    put = ::write(file.get(), bytes.data(), bytes.size());
  } while (put < 0 && errno == EINTR);
  if (put == static_cast<ssize_t>(bytes.size())) return;

  // A short write means that the disk is full.
  const int reason = put < 0 ? errno : ENOSPC;
  const off_t end = ::lseek(file.get(), 0, SEEK_END);
  const bool taken_back = put <= 0 || (end >= put && ::ftruncate(file.get(), end - put) == 0);
  fail(ExitCode::internal, "{}: cannot be written: {}{}{}", path, std::strerror(reason), advice,
       taken_back ? "" : " (its end is torn)");
}

}  // namespace trireme
