// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/fuzz_target.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace trireme {
// Of data/hdf5/child.h, in tests that link it.
[[gnu::weak]] void serve_hdf5_child(int argc, char** argv);
}  // namespace trireme

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  if (trireme::serve_hdf5_child != nullptr) trireme::serve_hdf5_child(*argc, *argv);
  return 0;
}

namespace trireme::fuzz {

MemoryFile::MemoryFile() : file_(memfd_create("fuzz", 0)) {
  require(file_ >= 0, "memfd_create");
  path_ = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(file_);
}

MemoryFile::~MemoryFile() {
  ::close(file_);
}

void MemoryFile::set(std::string_view content) const {
  const auto size = static_cast<off_t>(content.size());
  require(::ftruncate(file_, 0) == 0 && ::ftruncate(file_, size) == 0, "ftruncate");
  require(::pwrite(file_, content.data(), content.size(), 0) == size, "pwrite");
}

void require(bool condition, std::string_view what) {
  if (condition) return;
  std::fprintf(stderr, "broken promise: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

}  // namespace trireme::fuzz
