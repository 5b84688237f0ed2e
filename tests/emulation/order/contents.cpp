// SPDX-License-Identifier: Apache-2.0
#include "tests/emulation/order/contents.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>

#include "tests/emulation/order/report.h"

namespace trireme::emulated::order {
namespace {

// State of one byte. Pages of zeros exist only once written.
enum class Content : std::uint8_t { nobodys, unwritten, value };

struct Contents {
  std::uintptr_t first = 0;
  std::span<Content> bytes;
};
Contents contents;

std::span<Content> range(std::uintptr_t address, std::size_t bytes) {
  const std::size_t at = address - contents.first;
  return contents.bytes.subspan(at, std::min(bytes, contents.bytes.size() - at));
}

bool covers(std::uintptr_t address) {
  return address - contents.first < contents.bytes.size();
}

void set(std::span<Content> bytes, Content content) {
  std::memset(bytes.data(), static_cast<int>(content), bytes.size());
}

}  // namespace

void contents_cover(std::uintptr_t first, std::size_t bytes) {
  void* const map = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) {
    std::fprintf(stderr, "CUDA emulator: no address space to keep the contents of memory in\n");
    std::abort();
  }
  contents = {first, {static_cast<Content*>(map), bytes}};
}

void contents_allocated(std::uintptr_t address, std::size_t bytes) {
  set(range(address, bytes), Content::unwritten);
}

void contents_released(std::uintptr_t address, std::size_t bytes) {
  set(range(address, bytes), Content::nobodys);
}

void contents_read(std::uintptr_t address, std::size_t bytes) {
  if (!covers(address)) return;
  const auto here = range(address, bytes);
  const auto bad = std::ranges::find_if(here, [](Content c) { return c != Content::value; });
  if (bad == here.end()) return;
  const auto at = address + static_cast<std::size_t>(bad - here.begin());
  if (*bad == Content::nobodys) report_outside(at, /*writes=*/false);
  report_unwritten(at);
}

void contents_written(std::uintptr_t address, std::size_t bytes) {
  if (!covers(address)) return;
  const auto here = range(address, bytes);
  const auto bad = std::ranges::find(here, Content::nobodys);
  if (bad != here.end())
    report_outside(address + static_cast<std::size_t>(bad - here.begin()), /*writes=*/true);
  set(here, Content::value);
}

void contents_copied(std::uintptr_t to, std::uintptr_t from, std::size_t bytes) {
  if (!covers(to)) return contents_read(from, bytes);
  if (!covers(from)) return contents_written(to, bytes);
  const auto source = range(from, bytes);
  std::memmove(range(to, bytes).data(), source.data(), source.size());
}

}  // namespace trireme::emulated::order
