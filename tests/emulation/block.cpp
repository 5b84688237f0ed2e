// SPDX-License-Identifier: Apache-2.0
#include "tests/emulation/block.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string_view>
#include <vector>

#include "tests/emulation/fiber.h"
#include "tests/emulation/shared_memory.h"

constinit thread_local trireme::emulated::Dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace trireme::emulated {
namespace {

constexpr int warp_lanes = 32;

enum class Waiting : std::uint8_t { nothing, block, warp };

struct Lane {
  Fiber fiber;
  Waiting waiting = Waiting::nothing;
  unsigned mask = 0;       // of the warp barrier it waits at
  unsigned exchanges = 0;  // so far; its parity selects the slots, so a fast lane overwrites none
  Dim3 index;
};

struct Warp {
  // Two sets of slots: [parity][lane].
  std::array<std::array<std::uint64_t, warp_lanes>, 2> slots{};
  char point = 0;  // ThreadSanitizer's view of __syncwarp
};

// The block that this host thread runs.
struct Block {
  std::vector<std::unique_ptr<Lane>> lanes;  // kept from block to block
  std::vector<Warp> warps;
  SharedMemory shared;
  int threads = 0;
  int current = 0;
  // ThreadSanitizer's view of __syncthreads, of the launch and of the end of the grid.
  char point = 0, launched = 0, ended = 0;

  [[nodiscard]] Lane& lane(int index) { return *lanes[static_cast<std::size_t>(index)]; }
  [[nodiscard]] Lane& here() { return lane(current); }
  [[nodiscard]] Warp& warp() { return warps[static_cast<std::size_t>(current / warp_lanes)]; }
};

Block& block() {
  static thread_local Block instance;
  return instance;
}

[[noreturn]] void die(const char* what) {
  Block& b = block();
  std::fprintf(stderr, "emulated kernel: block (%u, %u, %u): %s\n", blockIdx.x, blockIdx.y,
               blockIdx.z, what);
  constexpr std::array<const char*, 3> names{"running", "at __syncthreads", "at a warp barrier"};
  for (int i = 0; i < b.threads; ++i) {
    const Lane& lane = b.lane(i);
    std::fprintf(
        stderr, "  thread %d: %s\n", i,
        lane.fiber.finished() ? "returned" : names[static_cast<std::size_t>(lane.waiting)]);
  }
  std::abort();
}

// The lanes of the warp of `first` that wait at a warp barrier with `mask`.
unsigned arrived(int first, unsigned mask) {
  Block& b = block();
  unsigned found = 0;
  for (int i = 0; i < warp_lanes && first + i < b.threads; ++i) {
    const Lane& lane = b.lane(first + i);
    if (lane.waiting == Waiting::warp && lane.mask == mask && !lane.fiber.finished())
      found |= 1U << i;
  }
  return found;
}

// Releases every complete warp barrier; true if there was one.
bool release_warps() {
  Block& b = block();
  bool any = false;
  for (int first = 0; first < b.threads; first += warp_lanes) {
    for (int i = 0; i < warp_lanes && first + i < b.threads; ++i) {
      const Lane& lane = b.lane(first + i);
      if (lane.waiting != Waiting::warp) continue;
      // A mask may name lanes beyond a short last warp.
      const int live = std::min(warp_lanes, b.threads - first);
      const unsigned present = live == warp_lanes ? ~0U : (1U << live) - 1U;
      const unsigned mask = lane.mask;
      if ((arrived(first, mask) & mask) != (mask & present)) continue;
      for (int j = 0; j < live; ++j) {
        if ((mask >> j & 1U) != 0) b.lane(first + j).waiting = Waiting::nothing;
      }
      any = true;
    }
  }
  return any;
}

// Releases __syncthreads once every thread has arrived; returns whether it did.
bool release_block() {
  Block& b = block();
  int waiting = 0, finished = 0;
  for (int i = 0; i < b.threads; ++i) {
    const Lane& lane = b.lane(i);
    finished += lane.fiber.finished() ? 1 : 0;
    waiting += lane.waiting == Waiting::block ? 1 : 0;
  }
  if (waiting == 0) return false;
  if (finished > 0) die("some threads returned while others wait at __syncthreads");
  if (waiting < b.threads) return false;
  for (int i = 0; i < b.threads; ++i)
    b.lane(i).waiting = Waiting::nothing;
  return true;
}

// Runs every ready thread once; true if there was one.
bool run_ready() {
  Block& b = block();
  bool any = false;
  for (int i = 0; i < b.threads; ++i) {
    Lane& lane = b.lane(i);
    if (lane.fiber.finished() || lane.waiting != Waiting::nothing) continue;
    b.current = i;
    threadIdx = lane.index;
    lane.fiber.resume();
    any = true;
  }
  return any;
}

void run_block(const std::function<void()>& thread) {
  Block& b = block();
  for (int i = 0; i < b.threads; ++i) {
    Lane& lane = b.lane(i);
    lane.waiting = Waiting::nothing;
    lane.exchanges = 0;
    lane.fiber.start(thread);
  }
  b.shared.fill();
  while (true) {
    if (run_ready()) continue;
    if (release_warps() || release_block()) continue;
    break;
  }
  for (int i = 0; i < b.threads; ++i) {
    if (!b.lane(i).fiber.finished()) die("its threads wait for each other for ever");
  }
  if (!b.shared.intact()) die("it wrote behind the end of its shared memory");
}

// The order of a grid's blocks. A GPU guarantees none: with TRIREME_EMULATED_BLOCKS=mixed each
// launch of a thread has a different one.
class BlockOrder {
 public:
  explicit BlockOrder(std::int64_t blocks) : blocks_(blocks) {
    static const bool mixed = [] {
      const char* const text = std::getenv("TRIREME_EMULATED_BLOCKS");
      return text != nullptr && std::string_view(text) == "mixed";
    }();
    if (!mixed || blocks < 2) return;
    static thread_local std::int64_t launches = 0;
    first_ = ++launches % blocks;
    step_ = blocks * 5 / 8 + launches % 3;
    while (std::gcd(step_, blocks) != 1)
      ++step_;
  }
  [[nodiscard]] std::int64_t block(std::int64_t i) const { return (first_ + i * step_) % blocks_; }

 private:
  std::int64_t blocks_, first_ = 0, step_ = 1;
};

void wait_here(Waiting reason, unsigned mask) {
  Lane& lane = block().here();
  lane.waiting = reason;
  lane.mask = mask;
  lane.fiber.suspend();
}

}  // namespace

int lane_index() {
  return block().current % warp_lanes;
}

void* dynamic_shared() {
  return block().shared.data();
}

void block_barrier() {
  Block& b = block();
  Fiber::release(&b.point);
  wait_here(Waiting::block, 0);
  Fiber::acquire(&b.point);
}

void warp_barrier(unsigned mask) {
  Warp& warp = block().warp();
  Fiber::release(&warp.point);
  wait_here(Waiting::warp, mask);
  Fiber::acquire(&warp.point);
}

// Shuffles order no memory, so ThreadSanitizer gets no order here. The result has the values of all
// lanes of the warp, valid until the lane's exchange after next.
static const std::array<std::uint64_t, warp_lanes>& gather(unsigned mask, std::uint64_t value) {
  Block& b = block();
  Lane& lane = b.here();
  auto& slots = b.warp().slots[lane.exchanges++ % 2];
  slots[static_cast<std::size_t>(lane_index())] = value;
  wait_here(Waiting::warp, mask);
  return slots;
}

std::uint64_t exchange(unsigned mask, std::uint64_t value, int source) {
  return gather(mask, value)[static_cast<std::size_t>(source)];
}

unsigned ballot(unsigned mask, bool predicate) {
  const auto& given = gather(mask, predicate ? 1 : 0);
  unsigned votes = 0;
  for (int lane = 0; lane < warp_lanes; ++lane) {
    if ((mask >> lane & 1U) != 0 && given[static_cast<std::size_t>(lane)] != 0) votes |= 1U << lane;
  }
  return votes;
}

void run_grid(Dim3 grid, Dim3 dims, std::size_t shared_bytes, const std::function<void()>& thread) {
  Block& b = block();
  // Blocks are not ordered with each other: only by the launch and the end of the grid.
  Fiber::release(&b.launched);
  const std::function<void()> ordered = [&] {
    Fiber::acquire(&b.launched);
    thread();
    Fiber::release(&b.ended);
  };
  b.threads = static_cast<int>(dims.count());
  if (b.threads < 1 || b.threads > 1024) {
    std::fprintf(stderr, "emulated kernel: a block of %d threads\n", b.threads);
    std::abort();
  }
  while (static_cast<int>(b.lanes.size()) < b.threads)
    b.lanes.push_back(std::make_unique<Lane>());
  b.warps.assign(static_cast<std::size_t>((b.threads + warp_lanes - 1) / warp_lanes), Warp{});
  b.shared.resize(shared_bytes);
  blockDim = dims;
  gridDim = grid;
  for (int i = 0; i < b.threads; ++i) {
    const auto index = static_cast<unsigned>(i);
    b.lane(i).index = Dim3(index % dims.x, index / dims.x % dims.y, index / (dims.x * dims.y));
  }
  const BlockOrder order(grid.count());
  for (std::int64_t i = 0; i < grid.count(); ++i) {
    const std::int64_t at = order.block(i), row = at / grid.x;
    blockIdx = Dim3(static_cast<unsigned>(at % grid.x), static_cast<unsigned>(row % grid.y),
                    static_cast<unsigned>(row / grid.y));
    run_block(ordered);
  }
  Fiber::acquire(&b.ended);
}

}  // namespace trireme::emulated
