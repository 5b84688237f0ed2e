// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/export/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace trireme {

AppendFile::AppendFile(const OutputDirectory& directory, const std::string& name, int flags)
    : path_(directory.path_of(name)),
      file_(directory.open(name, O_WRONLY | O_CREAT | O_APPEND | flags)),
      written_(regular_file_size(file_, path_, ExitCode::internal)) {}

void AppendFile::flush() {
  if (waiting_.empty()) return;
  ssize_t put = 0;
  do {
    put = ::write(file_.get(), waiting_.data(), waiting_.size());
  } while (put < 0 && errno == EINTR);
  const bool whole = put == static_cast<ssize_t>(waiting_.size());
  if (whole) written_ += waiting_.size();
  waiting_.clear();
  if (whole) return;

  // A short write means that the disk filled up within it.
  const int reason = put < 0 ? errno : ENOSPC;
  if (put > 0 && ::ftruncate(file_.get(), static_cast<off_t>(written_)) != 0)
    fail(ExitCode::internal, "{}: cannot be written: {} (its end is torn)", path_,
         std::strerror(reason));
  fail(ExitCode::internal, "{}: cannot be written: {}", path_, std::strerror(reason));
}

void AppendFile::truncate(std::uint64_t bytes) {
  if (::ftruncate(file_.get(), static_cast<off_t>(bytes)) != 0) system_failed("ftruncate", path_);
  written_ = bytes;
}

}  // namespace trireme
