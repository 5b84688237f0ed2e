// SPDX-License-Identifier: Apache-2.0
#include "tests/emulation/order/report.h"

#include <unistd.h>

#include <cstdio>
#include <limits>
#include <mutex>

namespace trireme::emulated::order {
namespace {

constexpr int exit_code = 66;

// Only the first report is printed.
void take_turn() {
  static std::mutex mutex;
  mutex.lock();
}

std::string chain(const Frames& frames) {
  std::string text;
  for (const std::string& name : names_of(frames))
    text += (text.empty() ? "" : " < ") + name;
  return text.empty() ? "no function of the engine" : text;
}

std::string stream_text(std::uint32_t lane) {
  const LaneOrigin origin = lane_origin(lane);
  if (origin.branch_of >= 0) {
    return "a side branch of a graph on " +
           stream_text(static_cast<std::uint32_t>(origin.branch_of));
  }
  return "stream " + std::to_string(lane) + " (made by " + chain(origin.made) + ")";
}

std::string operation_text(const Operation& operation) {
  std::string text = operation.kernel == nullptr ? call_name(operation.asked)
                                                 : "kernel " + function_name(operation.kernel);
  text += "\n    asked for by " + chain(operation.asked);
  if (!operation.range.empty()) text += "\n    in the range " + operation.range;
  return text;
}

std::string access_text(const Access& access) {
  const Executed& what = executed(access.by);
  return std::string(access.writes ? "written" : "read") + " by " +
         operation_text(*what.operation) + "\n    on " + stream_text(what.lane) + ", operation " +
         std::to_string(what.tick) + " there\n";
}

std::string memory_text(std::uintptr_t address) {
  const Allocation allocation = allocation_of(address);
  if (allocation.bytes == 0) return "memory outside of any allocation";
  return "byte " + std::to_string(address - allocation.first) + " of " +
         std::to_string(allocation.bytes) + " that were allocated by " + chain(allocation.made);
}

[[noreturn]] void end(const std::string& what, const std::string& text) {
  std::fprintf(stderr, "CUDA emulator: rank %zu: %s\n%s", Place::get().rank, what.c_str(),
               text.c_str());
  std::fflush(stderr);
  ::_exit(exit_code);
}

}  // namespace

void report_unordered(std::uintptr_t address, Access now, Access earlier) {
  take_turn();
  if (executed(earlier.by).tick == std::numeric_limits<std::uint32_t>::max()) {
    end("the device uses memory that the host has freed without waiting",
        "  freed by " + chain(executed(earlier.by).operation->asked) + "\n  " + access_text(now));
  }
  end("two accesses to the same memory are not ordered, by no event and no wait of the host",
      "  " + memory_text(address) + "\n  " + access_text(now) + "  before that " +
          access_text(earlier));
}

void report_released(std::uintptr_t address, Access earlier) {
  take_turn();
  end("memory is freed while the device may use it: the host has not waited",
      "  " + memory_text(address) + "\n  freed by " + chain(Frames::here()) + "\n  " +
          access_text(earlier));
}

void report_host_access(const void* data, bool writes, const Operation& earlier) {
  take_turn();
  end("the host touches page-locked memory that an operation on its way uses, without waiting",
      "  " + memory_text(reinterpret_cast<std::uintptr_t>(data)) + "\n  " +
          (writes ? "written" : "read") + " by the host in " + chain(Frames::here()) +
          "\n  used by " + operation_text(earlier) + "\n");
}

void report_outside(std::uintptr_t address, bool writes) {
  take_turn();
  const Allocation before = allocation_before(address);
  std::string where = "no allocation lies before it";
  if (before.bytes > 0) {
    where = std::to_string(address - before.first - before.bytes) + " bytes behind the end of " +
            std::to_string(before.bytes) + " that were allocated by " + chain(before.made);
  }
  end("the device uses memory that is in no allocation",
      "  " + where + "\n  " + access_text({running->id, writes}));
}

void report_unwritten(std::uintptr_t address) {
  take_turn();
  end("memory is read that nothing has written",
      "  " + memory_text(address) + "\n  " + access_text({running->id, false}));
}

void report_time_asked() {
  take_turn();
  end("a time is asked for that the host has not waited for",
      "  by " + chain(Frames::here()) + "\n");
}

}  // namespace trireme::emulated::order
