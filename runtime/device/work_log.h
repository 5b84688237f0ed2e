// SPDX-License-Identifier: Apache-2.0
// What a thread asks of devices, noted as it is asked: operations with the bytes that they declare
// (ops/common/dispatch.h), the kernels and library calls below them, copies, messages. On a device
// that runs nothing (Execution) this is all that happens, so a step of any size is counted at once
// and without a GPU, by the code that would run it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// What an operation moves between a device's memory and its kernels, each pass over an operand
// counted, and what it computes.
struct Traffic {
  double read = 0, written = 0;  // bytes
  double flops = 0;              // of matmuls, attention and convolutions: 2 a multiply-add
  double smallest = 0;           // dimension of a matmul; of attention the size of a head
  int kernels = 1;               // that it launches on a GPU
};

enum class WorkKind : std::uint8_t {
  kernel,   // one of ours
  library,  // a call of cuBLASLt, cuDNN or CUB
  copy,
  fill,
  message  // a collective or a message of a group of more than one rank
};
[[nodiscard]] std::string_view name_of(WorkKind kind);

// How a kernel is launched.
struct WorkGrid {
  std::int64_t blocks = 0;
  int threads = 0;               // of a block
  std::size_t shared_bytes = 0;  // dynamic
};

struct WorkItem {
  WorkKind kind = WorkKind::kernel;
  std::string name;
  double bytes = 0;    // of copies, fills and messages
  WorkGrid grid{};     // of kernels
  int kernels = 1;     // that a library call launches, as far as is known
  int operation = -1;  // index in WorkLog::operations(), -1: of none
  std::string range;   // "backward/block.3": the Ranges (device/range.h) that are open
};

struct WorkOperation {
  std::string name;
  Traffic traffic;
  std::string range;
  // Of the host, until it was enqueued: on a CPU's compute stream, which runs inline, of the work.
  double seconds = 0;
};

class WorkLog {
 public:
  // Notes what its thread asks for during its life, also of devices that run. One at a time.
  WorkLog();
  ~WorkLog();
  WorkLog(const WorkLog&) = delete;
  WorkLog& operator=(const WorkLog&) = delete;
  // Of this thread, or null.
  [[nodiscard]] static WorkLog* current();

  void begin_range(const char* name);
  void end_range();
  // An operation that is carried out by others, which end before it: what they move is in what it
  // declares, what they launch is its own.
  void begin_operation(const char* name, const Traffic& traffic);
  void end_operation();
  void note(WorkKind kind, std::string name, double bytes = 0, int kernels = 1);
  void note_kernel(std::string name, const WorkGrid& grid);

  [[nodiscard]] bool inside_operation() const { return depth_ > 0; }
  // Forgets what was noted, between operations.
  void clear();

  [[nodiscard]] const std::vector<WorkOperation>& operations() const { return operations_; }
  [[nodiscard]] const std::vector<WorkItem>& items() const { return items_; }

 private:
  std::vector<WorkOperation> operations_;
  std::vector<WorkItem> items_;
  int depth_ = 0;                                // of operations
  std::chrono::steady_clock::time_point began_;  // the outermost of those that are open
  std::string range_;                            // of those that are open
  std::vector<std::size_t> lengths_;             // of range_ before each of them
};

namespace detail {
inline constinit thread_local WorkLog* current_work_log = nullptr;
}
inline WorkLog* WorkLog::current() {
  return detail::current_work_log;
}

// Around an operation; `traffic` is asked for only where somebody counts.
class OperationScope {
 public:
  template <typename GetTraffic>
  OperationScope(const char* name, const GetTraffic& traffic) : log_(WorkLog::current()) {
    if (log_ != nullptr) log_->begin_operation(name, traffic());
  }
  ~OperationScope() {
    if (log_ != nullptr) log_->end_operation();
  }
  OperationScope(const OperationScope&) = delete;
  OperationScope& operator=(const OperationScope&) = delete;

 private:
  WorkLog* log_;
};

}  // namespace trireme
