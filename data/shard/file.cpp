// SPDX-License-Identifier: Apache-2.0
#include "data/shard/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "runtime/base/error.h"

namespace trireme {
InputFile::InputFile(std::string path) : path_(std::move(path)) {
  file_ = open_regular_file(path_, ExitCode::data);
  size_ = regular_file_size(file_, path_, ExitCode::data);
}

void InputFile::read(std::uint64_t offset, std::span<std::byte> to) const {
  read_exactly(file_, path_, offset, to, ExitCode::data);
}

SpoolFile::SpoolFile(const std::string& directory) : directory_(directory) {
  file_ = FileDescriptor(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file_.get() >= 0) return;
  // For file systems without O_TMPFILE: a named file that is unlinked at once.
  std::string name = directory + "/.spool-XXXXXX";
  file_ = FileDescriptor(::mkostemp(name.data(), O_CLOEXEC));
  if (file_.get() < 0) system_failed("mkostemp", name, ExitCode::internal);
  if (::unlink(name.c_str()) != 0) system_failed("unlink", name, ExitCode::internal);
}

void SpoolFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote =
        ::pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(size_));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) write_failed("pwrite", directory_ + "/(temporary copy of the input)");
    size_ += static_cast<std::uint64_t>(wrote);
    bytes = bytes.subspan(static_cast<std::size_t>(wrote));
  }
}

void SpoolFile::read(std::uint64_t offset, std::span<std::byte> to) const {
  read_exactly(file_, directory_ + "/(temporary copy of the input)", offset, to,
               ExitCode::internal);
}

}  // namespace trireme
