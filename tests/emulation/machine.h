// SPDX-License-Identifier: Apache-2.0
// Private to the emulator: the machine that the environment describes, and its device memory.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace trireme::emulated {

enum class StreamMode { eager, lazy, threads };

struct Machine {
  StreamMode streams = StreamMode::eager;
  int gpus = 1;
  int capability = 90;  // compute capability
  int slices = 0;       // MIG: that each GPU is cut into; a process sees one
  std::size_t memory_bytes = std::size_t{8} << 30;
  std::string fault;
  bool protect = true;  // device memory faults outside of work
  // Few by default, so that grid-stride loops go round more than once.
  int processors = 4;

  [[nodiscard]] static const Machine& get();
};

// The host's calls to the device; calls recorded into a graph do not count.
enum class Asked : std::uint8_t { kernel, copy, graph, wait, allocation, range };
// Printed at exit if TRIREME_EMULATED_COUNTS is set. Only the main thread's waits count: it
// enqueues the steps and should not wait for the device.
void count(Asked what);
void count_range(const char* name);

// The multiprocessors that NCCL's kernels hold while they run, and the waves of matmul kernels that
// have a thread block for each multiprocessor but those that they were told to leave: printed with
// the counts.
class HeldProcessors {
 public:
  explicit HeldProcessors(int count);
  ~HeldProcessors();
  HeldProcessors(const HeldProcessors&) = delete;
  HeldProcessors& operator=(const HeldProcessors&) = delete;

 private:
  int count_;
};
void count_matmul(int target_processors);

// What emulated products took longer so far by the clock of events, and by no other.
[[nodiscard]] std::chrono::milliseconds planted_time();

// Work of the device runs between enter() and leave(), which nest: only then is device memory
// there.
void enter_device();
void leave_device();

// nullptr: no room.
[[nodiscard]] void* allocate_device(std::size_t bytes);
[[nodiscard]] bool release_device(void* data);
[[nodiscard]] std::size_t device_bytes_used();
// Whether [data, data + bytes) is inside one allocation of device memory.
[[nodiscard]] bool in_device(const void* data, std::size_t bytes);

}  // namespace trireme::emulated
