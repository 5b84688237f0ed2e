// SPDX-License-Identifier: Apache-2.0
#include "tests/emulation/order/accesses.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>

#include "tests/emulation/order/contents.h"
#include "tests/emulation/order/operations.h"
#include "tests/emulation/order/report.h"

namespace trireme::emulated::order {

bool kernels_observed = false;
Covered device_memory, pinned_memory;
AccessObserver access_observer = nullptr;

namespace {

constexpr std::size_t granule = 4;
constexpr std::size_t marked_cells = (std::size_t{1} << 18) / granule;

// An access to some bytes of a cell in one word: the operation, 4 bits for the bytes, one for a
// write; 0: none.
using Word = std::uint32_t;
constexpr Word write_bit = 1;
constexpr Word all_bytes = 0xF;

constexpr Word word_of(ExecutedId id, Word bytes, bool writes) {
  return id << 5 | bytes << 1 | (writes ? write_bit : 0);
}
constexpr ExecutedId id_of(Word word) {
  return word >> 5;
}
constexpr Word bytes_of(Word word) {
  return word >> 1 & all_bytes;
}

// The accesses that the next one must follow, without those implied by later ones.
struct Cell {
  std::array<std::atomic<Word>, 4> accesses;
};

struct Shadow {
  Covered* covered;
  Cell* cells;
};
std::array<Shadow, 2> shadows{{{&device_memory, nullptr}, {&pinned_memory, nullptr}}};

std::mutex allocations_mutex;
std::map<std::uintptr_t, Allocation> allocations;
std::size_t allocations_made = 0;

bool in_device_memory(std::uintptr_t address) {
  return address - device_memory.first < device_memory.bytes;
}
Shadow& shadow_of(std::uintptr_t address) {
  return shadows[in_device_memory(address) ? 0 : 1];
}

void cover(Shadow& shadow, void* data, std::size_t bytes) {
  const std::size_t room = (bytes / granule + 1) * sizeof(Cell);
  void* const cells = mmap(nullptr, room, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (cells == MAP_FAILED) {
    std::fprintf(stderr, "CUDA emulator: no address space to keep the order of streams in\n");
    std::abort();
  }
  shadow.cells = static_cast<Cell*>(cells);
  *shadow.covered = {reinterpret_cast<std::uintptr_t>(data), bytes};
}

Word load(const std::atomic<Word>& word) {
  return word.load(std::memory_order_relaxed);
}
void store(std::atomic<Word>& to, Word word) {
  to.store(word, std::memory_order_relaxed);
}

// Whether two accesses, the later being `own`, need an order and have none.
bool collide(Word earlier, Word own, const Clock& now) {
  return (bytes_of(earlier) & bytes_of(own)) != 0 && ((earlier | own) & write_bit) != 0 &&
         id_of(earlier) != id_of(own) && !before(executed(id_of(earlier)), now);
}

// The rest of the earlier access. For bytes of `own`, accesses ordered after it are also ordered
// after the earlier one, so they need no check. 0: nothing.
Word left_of(Word earlier, Word own, const Clock& now) {
  if ((earlier & write_bit) != 0 && (own & write_bit) == 0) return earlier;
  if (id_of(earlier) != id_of(own) && !before(executed(id_of(earlier)), now)) return earlier;
  const Word bytes = bytes_of(earlier) & ~bytes_of(own);
  return bytes == 0 ? 0 : word_of(id_of(earlier), bytes, (earlier & write_bit) != 0);
}

// Streams on different threads share a cell: each must see the other's access.
std::mutex& mutex_of(std::uintptr_t address) {
  static std::array<std::mutex, 64> mutexes;
  return mutexes[address / granule % mutexes.size()];
}

void touch_cell(Cell& cell, std::uintptr_t address, Word own) {
  for (const auto& slot : cell.accesses) {
    const Word known = load(slot);
    if (id_of(known) == id_of(own) && (known | own) == known) return;
  }
  const std::lock_guard lock(mutex_of(address));
  const Clock& now = running->lane->clock;
  std::atomic<Word>* free = nullptr;
  for (auto& slot : cell.accesses) {
    const Word earlier = load(slot);
    if (earlier != 0 && collide(earlier, own, now)) {
      report_unordered(address, {id_of(own), (own & write_bit) != 0},
                       {id_of(earlier), (earlier & write_bit) != 0});
    }
    const Word left = earlier == 0 ? 0 : left_of(earlier, own, now);
    if (left != earlier) store(slot, left);
    if (left == 0 && free == nullptr) free = &slot;
  }
  // A fifth unordered access replaces one.
  if (free == nullptr) free = &cell.accesses[id_of(own) % cell.accesses.size()];
  store(*free, own);
}

struct Cells {
  Cell* first;
  std::size_t count;
};

Cells cells_of(std::uintptr_t address, std::size_t bytes) {
  const Shadow& shadow = shadow_of(address);
  const std::size_t at = address - shadow.covered->first;
  const std::size_t end = std::min(at + bytes, shadow.covered->bytes);
  return {shadow.cells + at / granule, (end + granule - 1) / granule - at / granule};
}

// Untouched memory: whole pages of it are given back.
void forget(const Cells& cells) {
  constexpr std::uintptr_t page = 4096;
  const auto first = reinterpret_cast<std::uintptr_t>(cells.first);
  const std::uintptr_t end = first + cells.count * sizeof(Cell);
  const std::uintptr_t inner = (first + page - 1) / page * page, inner_end = end / page * page;
  if (inner < inner_end) madvise(reinterpret_cast<void*>(inner), inner_end - inner, MADV_DONTNEED);
  for (std::size_t i = 0; i < cells.count; ++i) {
    const auto at = reinterpret_cast<std::uintptr_t>(cells.first + i);
    if (at >= inner && at + sizeof(Cell) <= inner_end) {
      i += (inner_end - at) / sizeof(Cell) - 1;
      continue;
    }
    for (auto& slot : cells.first[i].accesses)
      store(slot, 0);
  }
}

}  // namespace

void cover_device(void* data, std::size_t bytes) {
  cover(shadows[0], data, bytes);
  contents_cover(reinterpret_cast<std::uintptr_t>(data), bytes);
}

void cover_pinned(void* data, std::size_t bytes) {
  cover(shadows[1], data, bytes);
}

void allocated(const void* data, std::size_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  forget(cells_of(address, bytes));
  if (in_device_memory(address)) contents_allocated(address, bytes);
  const std::lock_guard lock(allocations_mutex);
  allocations[address] = {address, bytes, ++allocations_made, Frames::here()};
}

void released(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const std::size_t bytes = allocation_of(address).bytes;
  const Cells cells = cells_of(address, bytes);
  const Clock host = all_hosts_clock();
  for (std::size_t i = 0; i < cells.count; ++i) {
    for (const auto& slot : cells.first[i].accesses) {
      const Word earlier = load(slot);
      if (earlier != 0 && !before(executed(id_of(earlier)), host))
        report_released(address + i * granule, {id_of(earlier), (earlier & write_bit) != 0});
    }
  }
  // Work that has not run yet hits this if it accesses freed memory.
  const ExecutedId freed = last_of_all();
  forget(cells);
  if (in_device_memory(address)) contents_released(address, bytes);
  for (std::size_t i = 0; i < std::min(cells.count, marked_cells); ++i)
    store(cells.first[i].accesses[0], word_of(freed, all_bytes, true));
  const std::lock_guard lock(allocations_mutex);
  allocations.erase(address);
}

Allocation allocation_before(std::uintptr_t address) {
  const std::lock_guard lock(allocations_mutex);
  const auto found = allocations.upper_bound(address);
  return found == allocations.begin() ? Allocation{} : std::prev(found)->second;
}

Allocation allocation_of(std::uintptr_t address) {
  const Allocation before = allocation_before(address);
  return address < before.first + before.bytes ? before : Allocation{};
}

// The order of an access; its contents are another matter.
static void order_access(std::uintptr_t address, std::size_t bytes, bool writes) {
  const Cells cells = cells_of(address, bytes);
  const std::uintptr_t first = address / granule * granule, end = address + bytes;
  for (std::size_t i = 0; i < cells.count; ++i) {
    const std::uintptr_t at = first + i * granule;
    Word mask = all_bytes;
    if (at < address) mask &= all_bytes << (address - at);
    if (at + granule > end) mask &= all_bytes >> (at + granule - end);
    touch_cell(cells.first[i], std::max(at, address), word_of(running->id, mask, writes));
  }
}

void touch_covered(std::uintptr_t address, std::size_t bytes, bool writes) {
  if (running == nullptr) return;
  if (access_observer != nullptr) access_observer(running->id, address, bytes, writes);
  order_access(address, bytes, writes);
  if (writes) {
    contents_written(address, bytes);
  } else {
    contents_read(address, bytes);
  }
}

void copied(void* to, const void* from, std::size_t bytes) {
  const auto target = reinterpret_cast<std::uintptr_t>(to);
  const auto source = reinterpret_cast<std::uintptr_t>(from);
  if (!on() || running == nullptr) return;
  order_access(source, bytes, false);
  order_access(target, bytes, true);
  contents_copied(target, source, bytes);
}

}  // namespace trireme::emulated::order
