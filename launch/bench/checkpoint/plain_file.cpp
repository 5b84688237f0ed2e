// SPDX-License-Identifier: Apache-2.0
#include "launch/bench/checkpoint/plain_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "runtime/base/file.h"

namespace trireme {
namespace {

constexpr ExitCode code = ExitCode::checkpoint;
constexpr std::size_t piece_bytes = std::size_t{1} << 20;

// Whether the first page of a file would have to come from the disk. Reading it with RWF_NOWAIT
// would tell too, but starts to read ahead.
bool is_cold(const FileDescriptor& file, const std::string& path) {
  if (regular_file_size(file, path, code) == 0) return true;
  void* const page = ::mmap(nullptr, 1, PROT_READ, MAP_SHARED, file.get(), 0);
  if (page == MAP_FAILED) system_failed("mmap", path, code);
  unsigned char resident = 0;
  const int looked = ::mincore(page, 1, &resident);
  if (::munmap(page, 1) != 0) system_failed("munmap", path, code);
  if (looked != 0) system_failed("mincore", path, code);
  return (resident & 1U) == 0;
}

}  // namespace

void write_plainly(const std::string& path, std::uint64_t bytes) {
  const std::vector<std::byte> piece(piece_bytes, std::byte{7});
  FileDescriptor file = open_for_writing(path, code);
  for (std::uint64_t left = bytes; left > 0;) {
    const auto part = std::min<std::uint64_t>(left, piece_bytes);
    write_fully(file, path, std::span(piece).first(part), code);
    left -= part;
  }
  if (::fsync(file.get()) != 0) write_failed("fsync", path, code);
  file.close(path, code);
}

void PlainReader::read(const std::string& path) {
  const FileDescriptor file = open_for_reading(path, code);
  for (std::uint64_t done = 0; done < memory_.size();) {
    const auto part = std::min<std::uint64_t>(memory_.size() - done, piece_bytes);
    read_exactly(file, path, done, std::span(memory_).subspan(done, part), code);
    done += part;
  }
}

bool drop_page_cache(const std::string& directory) {
  bool cold = true;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    if (!entry.is_regular_file()) continue;
    const std::string path = entry.path().string();
    const FileDescriptor file = open_for_reading(path, code);
    if (const int error = ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED); error != 0) {
      errno = error;
      system_failed("posix_fadvise", path, code);
    }
    cold = is_cold(file, path) && cold;
  }
  return cold;
}

}  // namespace trireme
