// SPDX-License-Identifier: Apache-2.0
#include "tests/emulation/machine.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "tests/emulation/order/accesses.h"
#include "tests/emulation/order/clocks.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes) static_cast<void>(address)
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) static_cast<void>(address)
#endif

namespace trireme::emulated {
namespace {

constexpr std::size_t granule = 256;  // cudaMalloc's alignment
constexpr std::size_t red_zone = 256;
// Protects whole huge pages: changing many small ones would dominate a run's time.
constexpr std::size_t huge_page = std::size_t{2} << 20;

const char* setting(const char* name, const char* otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

[[noreturn]] void die(const char* what, const char* value) {
  std::fprintf(stderr, "CUDA emulator: %s: %s\n", what, value);
  std::abort();
}

Machine read_machine() {
  Machine machine;
  const std::string streams = setting("TRIREME_EMULATED_STREAMS", "eager");
  if (streams == "lazy") {
    machine.streams = StreamMode::lazy;
  } else if (streams == "threads") {
    machine.streams = StreamMode::threads;
  } else if (streams != "eager") {
    die("TRIREME_EMULATED_STREAMS must be eager, lazy or threads", streams.c_str());
  }
  machine.gpus = std::atoi(setting("TRIREME_EMULATED_GPUS", "1"));
  machine.memory_bytes = std::strtoull(setting("TRIREME_EMULATED_MEMORY", "8192"), nullptr, 10)
                         << 20;
  machine.processors = std::atoi(setting("TRIREME_EMULATED_PROCESSORS", "4"));
  machine.slices = std::atoi(setting("TRIREME_EMULATED_SLICES", "0"));
  if (machine.slices > 0) machine.memory_bytes /= static_cast<std::size_t>(machine.slices);
  machine.fault = setting("TRIREME_EMULATED_FAULT", "");
  machine.capability =
      machine.fault == "old_gpu" ? 70 : std::atoi(setting("TRIREME_EMULATED_CAPABILITY", "90"));
  // Other threads' work may use the memory while this thread's does not.
  machine.protect = machine.streams != StreamMode::threads;
  return machine;
}

// One reserved range, so that one call protects it all. First fit; with the order check, behind all
// earlier allocations, so that a stale address is never valid again.
class DeviceMemory {
 public:
  DeviceMemory() : bytes_(Machine::get().memory_bytes) {
    void* const base = mmap(nullptr, bytes_ + huge_page, access(),
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) die("reserving device memory", std::strerror(errno));
    const auto address = reinterpret_cast<std::uintptr_t>(base);
    base_ = static_cast<char*>(base) + (huge_page - address % huge_page);  // never its first byte
    // A hint: without it, protecting takes longer.
    static_cast<void>(madvise(base_, bytes_, MADV_HUGEPAGE));
    ASAN_POISON_MEMORY_REGION(base, bytes_ + huge_page);
    if (order::on()) order::cover_device(base_, bytes_);
  }

  void* allocate(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const std::size_t size = (bytes + red_zone + granule - 1) / granule * granule;
    std::size_t at = gap(size, order::on() ? given_ : 0);
    if (at + size > bytes_ && order::on()) at = gap(size, 0);
    if (at + size > bytes_) return nullptr;
    given_ = at + size;
    taken_[at] = {size, bytes};
    used_ += size;
    void* const data = base_ + at;
    ASAN_UNPOISON_MEMORY_REGION(data, bytes);
    open(at + size);
    std::memset(data, 0xFF, bytes);  // all floats NaN
    leave();
    if (order::on()) order::allocated(data, bytes);
    return data;
  }

  bool release(void* data) {
    const std::lock_guard lock(mutex_);
    const auto found = taken_.find(static_cast<std::size_t>(static_cast<char*>(data) - base_));
    if (found == taken_.end()) return false;
    if (order::on()) order::released(data);
    ASAN_POISON_MEMORY_REGION(data, found->second.room);
    used_ -= found->second.room;
    taken_.erase(found);
    return true;
  }

  bool holds(const void* data, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto* const first = static_cast<const char*>(data);
    if (first < base_ || first >= base_ + bytes_) return false;
    const auto at = static_cast<std::size_t>(first - base_);
    auto found = taken_.upper_bound(at);
    if (found == taken_.begin()) return false;
    --found;
    return at + bytes <= found->first + found->second.bytes;
  }

  void enter() { open(0); }
  void leave() {
    if (!Machine::get().protect) return;
    const std::lock_guard lock(protection_);
    if (--depth_ == 0) protect(PROT_NONE);
  }
  [[nodiscard]] std::size_t used() {
    const std::lock_guard lock(mutex_);
    return used_;
  }

 private:
  struct Taken {
    std::size_t room, bytes;
  };
  // The first gap at or behind `at` between allocations.
  [[nodiscard]] std::size_t gap(std::size_t size, std::size_t at) const {
    for (auto next = taken_.lower_bound(at); next != taken_.end(); ++next) {
      if (next->first - at >= size) break;
      at = next->first + next->second.room;
    }
    return at;
  }
  // Like enter(), for a range that reaches `top` at least.
  void open(std::size_t top) {
    if (!Machine::get().protect) return;
    const std::lock_guard lock(protection_);
    const bool grown = top > top_;
    if (grown) top_ = top;
    if (depth_++ == 0 || grown) protect(PROT_READ | PROT_WRITE);
  }
  static int access() { return Machine::get().protect ? PROT_NONE : PROT_READ | PROT_WRITE; }
  void protect(int how) {
    const std::size_t pages = std::min((top_ + huge_page - 1) / huge_page * huge_page, bytes_);
    if (pages > 0 && mprotect(base_, pages, how) != 0) die("mprotect", std::strerror(errno));
  }

  std::mutex mutex_, protection_;
  char* base_ = nullptr;
  std::size_t bytes_;
  std::size_t used_ = 0, top_ = 0;
  std::size_t given_ = 0;  // end of the last allocation
  int depth_ = 0;
  std::map<std::size_t, Taken> taken_;
};

// Never destroyed: static objects of the engine may release memory at exit.
DeviceMemory& memory() {
  static auto* const instance = new DeviceMemory;
  return *instance;
}

constexpr std::array<const char*, 6> asked_names{"kernels", "copies",      "graph launches",
                                                 "waits",   "allocations", "ranges"};
std::array<std::atomic<long>, asked_names.size()> asked{};

std::mutex range_mutex;
std::set<std::string> range_names;

struct Waves {
  std::mutex mutex;
  int held = 0, most_held = 0;
  long matmuls = 0, beside = 0, second = 0;
};
Waves& waves() {
  static auto* const instance = new Waves;  // streams may outlive static objects
  return *instance;
}

void print_counts() {
  std::string text = "CUDA emulator:";
  for (std::size_t i = 0; i < asked.size(); ++i) {
    text += (i == 0 ? " " : ", ") + std::to_string(asked[i]) + " " + asked_names[i];
  }
  const Waves& seen = waves();
  text += "\nCUDA emulator: " + std::to_string(seen.matmuls) + " matmuls, " +
          std::to_string(seen.beside) + " beside messages, " + std::to_string(seen.second) +
          " in two waves; messages held " + std::to_string(seen.most_held) +
          " multiprocessors at most";
  text += "\nCUDA emulator: ranges";
  for (const std::string& name : range_names)
    text += " \"" + name + "\"";
  text += "\n";
  // At once: mpirun would mix parts of several ranks.
  if (::write(STDERR_FILENO, text.data(), text.size()) < 0) std::perror("write");
}

bool counts() {
  static const bool printing =
      std::getenv("TRIREME_EMULATED_COUNTS") != nullptr && std::atexit(print_counts) == 0;
  return printing;
}

}  // namespace

HeldProcessors::HeldProcessors(int count) : count_(count) {
  const std::lock_guard lock(waves().mutex);
  waves().held += count_;
  waves().most_held = std::max(waves().most_held, waves().held);
}

HeldProcessors::~HeldProcessors() {
  const std::lock_guard lock(waves().mutex);
  waves().held -= count_;
}

void count_matmul(int target_processors) {
  const int all = Machine::get().processors;
  const int blocks = target_processors > 0 ? target_processors : all;
  Waves& seen = waves();
  const std::lock_guard lock(seen.mutex);
  ++seen.matmuls;
  if (seen.held > 0) ++seen.beside;
  if (blocks > std::max(1, all - seen.held)) ++seen.second;
}

void count(Asked what) {
  if (!counts() || (what == Asked::wait && gettid() != getpid())) return;
  ++asked[static_cast<std::size_t>(what)];
}

void count_range(const char* name) {
  if (!counts()) return;
  count(Asked::range);
  const std::lock_guard lock(range_mutex);
  range_names.insert(name);
}

const Machine& Machine::get() {
  static const Machine machine = read_machine();
  return machine;
}

void enter_device() {
  memory().enter();
}
void leave_device() {
  memory().leave();
}
void* allocate_device(std::size_t bytes) {
  return memory().allocate(bytes);
}
bool release_device(void* data) {
  return memory().release(data);
}
std::size_t device_bytes_used() {
  return memory().used();
}
bool in_device(const void* data, std::size_t bytes) {
  return memory().holds(data, bytes);
}

}  // namespace trireme::emulated
