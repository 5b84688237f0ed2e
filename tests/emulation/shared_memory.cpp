// SPDX-License-Identifier: Apache-2.0
#include "tests/emulation/shared_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace trireme::emulated {
namespace {

constexpr std::size_t guard_page = 4096;
constexpr std::size_t shared_room = std::size_t{228} * 1024;  // of an SM of sm_90: whole pages
constexpr std::size_t pack_bytes = 16;
constexpr std::byte unset{0xFF};

std::size_t round_up(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) / to * to;
}

}  // namespace

SharedMemory::SharedMemory() {
  void* const map = mmap(nullptr, shared_room + guard_page, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED ||
      mprotect(static_cast<char*>(map) + shared_room, guard_page, PROT_NONE) != 0) {
    std::perror("shared memory of an emulated CUDA block");
    std::abort();
  }
  base_ = static_cast<std::byte*>(map);
  data_ = base_ + shared_room;
}

SharedMemory::~SharedMemory() {
  munmap(base_, shared_room + guard_page);
}

void SharedMemory::resize(std::size_t bytes) {
  if (bytes > shared_room) {
    std::fprintf(stderr, "emulated kernel: %zu bytes of shared memory\n", bytes);
    std::abort();
  }
  bytes_ = bytes;
  data_ = base_ + shared_room - round_up(bytes, pack_bytes);
}

void SharedMemory::fill() {
  std::memset(data_, static_cast<int>(unset), round_up(bytes_, pack_bytes));
}

bool SharedMemory::intact() const {
  return std::all_of(data_ + bytes_, base_ + shared_room, [](std::byte b) { return b == unset; });
}

}  // namespace trireme::emulated
