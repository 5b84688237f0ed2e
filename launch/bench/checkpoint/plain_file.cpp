// SPDX-License-Identifier: Apache-2.0
#include "launch/bench/checkpoint/plain_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "runtime/base/output_directory.h"

namespace trireme {
namespace {

constexpr ExitCode code = ExitCode::checkpoint;
constexpr std::size_t piece_bytes = std::size_t{1} << 20;

struct Pages {
  std::size_t all = 0, cached = 0;
};

// RWF_NOWAIT would also test this, but starts readahead.
Pages pages_of(const FileDescriptor& file, const std::string& path) {
  const auto bytes = static_cast<std::size_t>(regular_file_size(file, path, code));
  if (bytes == 0) return {};
  void* const begin = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.get(), 0);
  if (begin == MAP_FAILED) system_failed("mmap", path, code);
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> resident((bytes + page - 1) / page);
  const int looked = ::mincore(begin, bytes, resident.data());
  if (::munmap(begin, bytes) != 0) system_failed("munmap", path, code);
  if (looked != 0) system_failed("mincore", path, code);
  const auto cached =
      std::ranges::count_if(resident, [](unsigned char bits) { return (bits & 1U) != 0; });
  return {.all = resident.size(), .cached = static_cast<std::size_t>(cached)};
}

template <typename Visit>
void for_each_file(const std::string& directory, const Visit& visit) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    if (!entry.is_regular_file()) continue;
    const std::string path = entry.path().string();
    visit(open_for_reading(path, code), path);
  }
}

}  // namespace

void write_plainly(const std::string& path, std::uint64_t bytes) {
  const std::vector<std::byte> piece(piece_bytes, std::byte{7});
  FileDescriptor file = OutputDirectory(parent_directory(path), code)
                            .create(std::filesystem::path(path).filename(), O_WRONLY);
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
  for_each_file(directory, [&](const FileDescriptor& file, const std::string& path) {
    if (const int error = ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED); error != 0) {
      errno = error;
      system_failed("posix_fadvise", path, code);
    }
    cold = pages_of(file, path).cached == 0 && cold;
  });
  return cold;
}

double cached_share(const std::string& directory) {
  Pages sum;
  for_each_file(directory, [&](const FileDescriptor& file, const std::string& path) {
    const Pages pages = pages_of(file, path);
    sum.all += pages.all;
    sum.cached += pages.cached;
  });
  return sum.all == 0 ? 1 : static_cast<double>(sum.cached) / static_cast<double>(sum.all);
}

}  // namespace trireme
