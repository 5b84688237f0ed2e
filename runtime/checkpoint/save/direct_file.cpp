// SPDX-License-Identifier: Apache-2.0
#include "runtime/checkpoint/save/direct_file.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace trireme {
namespace {

// Bytes per call: enough for network file systems to send in parallel.
constexpr std::size_t write_bytes = std::size_t{8} << 20;

// Direct I/O is not supported by this file system or memory; the page cache is.
bool is_unsupported(int error) {
  return error == EINVAL || error == EOPNOTSUPP || error == EFAULT;
}

bool is_aligned(std::uint64_t value) {
  return value % DirectFile::alignment == 0;
}

}  // namespace

DirectFile::DirectFile(const OutputDirectory& directory, const std::string& name, ExitCode code)
    : path_(directory.path_of(name)),
      code_(code),
      cached_(directory.create(name, O_WRONLY)),
      direct_(directory.try_open(name, O_WRONLY | O_DIRECT)) {
  if (!direct_.is_open() && !is_unsupported(errno)) write_failed("open", path_, code_);
}

void DirectFile::require_room(std::uint64_t bytes) const {
  struct statvfs disk {};
  // Some file systems do not report space; then the writes fail instead.
  if (::fstatvfs(cached_.get(), &disk) != 0 || disk.f_blocks == 0) return;
  if (bytes <= std::uint64_t{disk.f_bfree} * disk.f_frsize) return;
  errno = ENOSPC;
  write_failed("fstatvfs", path_, code_);
}

void DirectFile::write(std::uint64_t offset, std::span<const std::byte> data) {
  const auto rest = write_past_cache(offset, data);
  write_fully_at(cached_, path_, offset + (data.size() - rest.size()), rest, code_);
}

std::span<const std::byte> DirectFile::write_past_cache(std::uint64_t offset,
                                                        std::span<const std::byte> data) {
  const auto fits = [&] {
    return is_aligned(offset) && is_aligned(reinterpret_cast<std::uintptr_t>(data.data())) &&
           data.size() >= alignment;
  };
  while (direct_.is_open() && fits()) {
    const std::size_t bytes = std::min(data.size() / alignment * alignment, write_bytes);
    const ssize_t put = ::pwrite(direct_.get(), data.data(), bytes, static_cast<off_t>(offset));
    if (put < 0) {
      if (errno == EINTR) continue;
      if (!is_unsupported(errno)) write_failed("pwrite", path_, code_);
      break;
    }
    data = data.subspan(static_cast<std::size_t>(put));
    offset += static_cast<std::uint64_t>(put);
  }
  return data;
}

void DirectFile::finish(std::uint64_t bytes) {
  if (::ftruncate(cached_.get(), static_cast<off_t>(bytes)) != 0)
    write_failed("ftruncate", path_, code_);
  if (::fsync(cached_.get()) != 0) write_failed("fsync", path_, code_);
  direct_.close(path_, code_);
  cached_.close(path_, code_);
}

}  // namespace trireme
