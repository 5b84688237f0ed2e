// SPDX-License-Identifier: Apache-2.0
#include "launch/campaign/cluster/job_control.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

#include "runtime/base/output_directory.h"

namespace trireme::campaign {
namespace {

struct flock whole_file() {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  return whole;
}

}  // namespace

std::optional<FileDescriptor> try_attempt_lock(const std::string& directory) {
  FileDescriptor file = OutputDirectory(directory, ExitCode::config).open("lock", O_RDWR | O_CREAT);
  struct flock whole = whole_file();
  if (::fcntl(file.get(), F_OFD_SETLK, &whole) == 0) return file;
  if (errno != EAGAIN && errno != EACCES) {
    fail(ExitCode::config,
         "{}/lock: cannot be locked: {}; use a directory on a local file system, NFS version 4, or "
         "Lustre mounted with flock",
         directory, std::strerror(errno));
  }
  return {};
}

bool attempt_is_locked(const std::string& directory) {
  const FileDescriptor file(
      ::open((directory + "/lock").c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct flock whole = whole_file();
  return file.is_open() && ::fcntl(file.get(), F_OFD_GETLK, &whole) == 0 && whole.l_type != F_UNLCK;
}

}  // namespace trireme::campaign
