// SPDX-License-Identifier: Apache-2.0
#include "tests/emulation/order/pinned.h"

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <map>
#include <mutex>

#include "tests/emulation/order/accesses.h"
#include "tests/emulation/order/operations.h"
#include "tests/emulation/order/report.h"

namespace trireme::emulated::order {
namespace {

constexpr std::size_t arena_bytes = std::size_t{4} << 30;
constexpr std::size_t page = 4096;

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "CUDA emulator: page-locked memory: %s: %s\n", what, std::strerror(errno));
  std::abort();
}

std::size_t round_up(std::size_t bytes) {
  return (bytes + page - 1) / page * page;
}

// Closed are the pages that it touches.
struct Closed {
  std::size_t first, bytes;
  bool writes;
  std::shared_ptr<Flight> flight;
};

class Arena {
 public:
  Arena() {
    const int file = memfd_create("emulated page-locked memory", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, static_cast<off_t>(arena_bytes)) != 0) die("memfd_create");
    for (char** const view : {&host_, &device_}) {
      void* const base =
          mmap(nullptr, arena_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
      if (base == MAP_FAILED) die("mmap");
      *view = static_cast<char*>(base);
    }
    ::close(file);
    cover_pinned(host_, arena_bytes);
    struct sigaction action {};
    action.sa_sigaction = [](int, siginfo_t* info, void* context) { on_fault(*info, context); };
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    if (sigaction(SIGSEGV, &action, &before_) != 0) die("sigaction");
    action.sa_sigaction = [](int, siginfo_t*, void* context) { on_step(context); };
    if (sigaction(SIGTRAP, &action, nullptr) != 0) die("sigaction");
  }

  void* allocate(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const std::size_t size = round_up(bytes + 1);  // the next allocation uses other pages
    std::size_t at = 0;
    for (const auto& [offset, taken] : taken_) {
      if (offset - at >= size) break;
      at = offset + taken;
    }
    if (at + size > arena_bytes) return nullptr;
    taken_[at] = size;
    return host_ + at;
  }

  void release(void* data) {
    const std::lock_guard lock(mutex_);
    taken_.erase(offset_of(data));
  }

  [[nodiscard]] bool holds(const void* data) const {
    const auto* const at = static_cast<const char*>(data);
    return at >= host_ && at < host_ + arena_bytes;
  }
  [[nodiscard]] char* device_view(const void* data) const { return device_ + offset_of(data); }

  void close(const PinnedUse& use, const std::shared_ptr<Flight>& flight) {
    const std::lock_guard lock(mutex_);
    closed_.push_back({offset_of(use.data), use.bytes, use.writes, flight});
    protect_as_closed(closed_.back().first, use.bytes);
  }

  void open(const Clock& host) {
    const std::lock_guard lock(mutex_);
    std::list<Closed> over;
    for (auto it = closed_.begin(); it != closed_.end();) {
      const auto next = std::next(it);
      if (waited_for(*it->flight, host)) over.splice(over.end(), closed_, it);
      it = next;
    }
    for (const Closed& each : over) {
      protect(each.first, each.bytes, PROT_READ | PROT_WRITE);
      protect_as_closed(each.first, each.bytes);
    }
  }

 private:
  static bool waited_for(const Flight& flight, const Clock& host) {
    return flight.tick != 0 && flight.tick <= host.at(flight.lane);
  }
  [[nodiscard]] std::size_t offset_of(const void* data) const {
    return static_cast<std::size_t>(static_cast<const char*>(data) - host_);
  }
  void protect(std::size_t first, std::size_t bytes, int how) {
    const std::size_t start = first / page * page;
    if (mprotect(host_ + start, round_up(first + bytes) - start, how) != 0) die("mprotect");
  }
  // All flights that share a page with the range, the strictest last.
  void protect_as_closed(std::size_t first, std::size_t bytes) {
    const std::size_t start = first / page * page, end = round_up(first + bytes);
    for (const bool writes : {false, true}) {
      for (const Closed& each : closed_) {
        if (each.writes == writes && each.first < end && start < round_up(each.first + each.bytes))
          protect(each.first, each.bytes, writes ? PROT_NONE : PROT_READ);
      }
    }
  }

  static void on_fault(const siginfo_t& info, void* context);
  static void on_step(void* context);
  // The operation that the access must wait for.
  const Operation* blamed(std::size_t at, bool writes) {
    const std::lock_guard lock(mutex_);
    for (const Closed& each : closed_) {
      if (at < each.first || at >= each.first + each.bytes || !(writes || each.writes)) continue;
      if (!waited_for(*each.flight, all_hosts_clock())) return each.flight->operation;
    }
    return nullptr;
  }
  void set_page(std::size_t at, bool open) {
    const std::lock_guard lock(mutex_);
    if (open) {
      protect(at, 1, PROT_READ | PROT_WRITE);
    } else {
      protect_as_closed(at, 1);
    }
  }

  std::mutex mutex_;
  char* host_ = nullptr;
  char* device_ = nullptr;
  std::map<std::size_t, std::size_t> taken_;
  std::list<Closed> closed_;
  struct sigaction before_ {};
};

Arena& arena() {
  static auto* const instance = new Arena;
  return *instance;
}

// Pages opened for one instruction of this thread, which accesses other bytes on them.
thread_local std::array<std::size_t, 4> stepping{};
thread_local std::size_t stepping_count = 0;
constexpr long long trap_flag = 0x100;

void Arena::on_fault(const siginfo_t& info, void* context) {
  if (!arena().holds(info.si_addr)) {
    sigaction(SIGSEGV, &arena().before_, nullptr);  // and again
    return;
  }
  constexpr long long write_bit = 2;
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const bool writes = (registers[REG_ERR] & write_bit) != 0;
  const std::size_t at = arena().offset_of(info.si_addr);
  if (const Operation* const operation = arena().blamed(at, writes); operation != nullptr)
    report_host_access(info.si_addr, writes, *operation);
  if (stepping_count == stepping.size()) die("an instruction touches too many pages");
  stepping[stepping_count++] = at;
  arena().set_page(at, true);
  registers[REG_EFL] |= trap_flag;
}

void Arena::on_step(void* context) {
  static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL] &= ~trap_flag;
  while (stepping_count > 0)
    arena().set_page(stepping[--stepping_count], false);
}

}  // namespace

void* allocate_pinned(std::size_t bytes) {
  void* const data = arena().allocate(bytes);
  if (data != nullptr) allocated(data, bytes);
  return data;
}

void release_pinned(void* data) {
  released(data);
  arena().release(data);
}

bool holds_pinned_of_order(const void* data) {
  return arena().holds(data);
}

void* device_view(void* data) {
  return on() && arena().holds(data) ? arena().device_view(data) : data;
}

const void* device_view(const void* data) {
  return on() && arena().holds(data) ? arena().device_view(data) : data;
}

std::shared_ptr<Flight> close_pinned(const Lane& lane, const Operation& operation,
                                     const std::vector<PinnedUse>& uses) {
  if (uses.empty()) return nullptr;
  auto flight = std::make_shared<Flight>();
  flight->operation = &operation;
  flight->lane = static_cast<std::uint32_t>(lane.index());
  for (const PinnedUse& use : uses)
    arena().close(use, flight);
  return flight;
}

void open_waited_for(const Clock& host) {
  arena().open(host);
}

}  // namespace trireme::emulated::order
