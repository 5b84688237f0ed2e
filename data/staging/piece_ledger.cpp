// SPDX-License-Identifier: Apache-2.0
#include "data/staging/piece_ledger.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <span>

#include "runtime/base/error.h"

namespace trireme {
namespace {

// Locks of open file descriptions: unlike process locks they also work between threads, and stay
// when another descriptor of the file is closed.
struct flock lock_of(std::uint64_t piece, short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(piece * sizeof(StagedPiece));
  lock.l_len = sizeof(StagedPiece);
  return lock;
}

}  // namespace

void PieceLedger::prepare(const OutputDirectory& directory, const std::string& name,
                          std::uint64_t pieces) {
  const std::string path = directory.path_of(name);
  const FileDescriptor file = directory.open(name, O_RDWR | O_CREAT);
  if (regular_file_size(file, path, ExitCode::internal) == bytes_for(pieces)) return;
  if (::ftruncate(file.get(), 0) != 0 ||
      ::ftruncate(file.get(), static_cast<off_t>(bytes_for(pieces))) != 0)
    write_failed("ftruncate", path);
}

PieceLedger::PieceLedger(const OutputDirectory& directory, const std::string& name,
                         std::uint64_t pieces)
    : path_(directory.path_of(name)), file_(directory.try_open(name, O_RDWR)) {
  if (is_open() && regular_file_size(file_, path_, ExitCode::internal) != bytes_for(pieces))
    file_ = FileDescriptor();
}

bool PieceLedger::is_removed() const {
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0) system_failed("fstat", path_);
  return status.st_nlink == 0;
}

bool PieceLedger::claim(std::uint64_t piece) const {
  struct flock lock = lock_of(piece, F_WRLCK);
  if (::fcntl(file_.get(), F_OFD_SETLK, &lock) == 0) return true;
  if (errno != EAGAIN && errno != EACCES) system_failed("fcntl(F_OFD_SETLK)", path_);
  return false;
}

void PieceLedger::release(std::uint64_t piece) const noexcept {
  struct flock lock = lock_of(piece, F_UNLCK);
  static_cast<void>(::fcntl(file_.get(), F_OFD_SETLK, &lock));  // or on close
}

StagedPiece PieceLedger::read(std::uint64_t piece) const {
  StagedPiece value;
  read_exactly(file_, path_, piece * sizeof(value), std::as_writable_bytes(std::span(&value, 1)),
               ExitCode::internal);
  return value;
}

void PieceLedger::write(std::uint64_t piece, const StagedPiece& value) const {
  write_fully_at(file_, path_, piece * sizeof(value), std::as_bytes(std::span(&value, 1)),
                 ExitCode::internal);
}

}  // namespace trireme
