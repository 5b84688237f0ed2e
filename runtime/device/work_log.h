// SPDX-License-Identifier: Apache-2.0
// Logs a thread's work on devices: operations with their declared bytes (ops/common/dispatch.h),
// the kernels and library calls in them, copies, messages. On a device that runs nothing
// (Execution) only this happens, so a step of any size can be counted at once, without a GPU, by
// the code that would run it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme {

class Event;
class Stream;

// The units that compute an operation's FLOPs.
enum class WorkRate : std::uint8_t {
  memory,  // no FLOPs are counted
  matmul,
  matmul_fp32,  // whatever the precision, without tensor cores
  matmul_fp8,
  attention,
  convolution
};

// The bytes that an operation moves between memory and kernels, counting each pass over an operand,
// and its FLOPs.
struct Traffic {
  WorkRate rate = WorkRate::memory;
  double read = 0, written = 0;  // bytes
  double flops = 0;              // of matmuls, attention and convolutions; a multiply-add counts 2
  double smallest = 0;           // dimension of a matmul; for attention the head size
  int kernels = 1;               // launched on a GPU
  bool of_parameters = false;    // makes gradients of parameters
  friend bool operator==(const Traffic&, const Traffic&) = default;
};

enum class WorkKind : std::uint8_t {
  kernel,   // one of ours
  library,  // a call of cuBLASLt, cuDNN or CUB
  copy,
  fill,
  message  // a collective or message in a group of several ranks
};
[[nodiscard]] std::string_view name_of(WorkKind kind);

// A kernel's launch shape.
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
  int kernels = 1;     // launched by a library call, as far as known
  int operation = -1;  // index in WorkLog::operations(), -1: none
  std::string range;   // "backward/block.3": the open Ranges (device/range.h)
};

struct WorkOperation {
  std::string name;
  Traffic traffic;
  std::string range;
  bool repeated = false;  // by a backward (RepeatedWork)
  double seconds = 0;     // on its stream (WorkLog::read_times)
};

class WorkLog {
 public:
  // Logs its thread's work during its life, on all devices; an outer log rests. With `timed`,
  // events surround each operation on its stream.
  explicit WorkLog(bool timed = false);
  ~WorkLog();
  WorkLog(const WorkLog&) = delete;
  WorkLog& operator=(const WorkLog&) = delete;
  // This thread's log, or null.
  [[nodiscard]] static WorkLog* current();

  void begin_range(const char* name);
  void end_range();
  // An operation built from others, which end before it: it declares its traffic, and owns their
  // launches.
  void begin_operation(const char* name, Stream& stream, const Traffic& traffic);
  void end_operation(Stream& stream);
  // Of operations from now on; returns what it was.
  bool repeat(bool repeated) { return std::exchange(repeated_, repeated); }
  void note(WorkKind kind, std::string name, double bytes = 0, int kernels = 1);
  void note_kernel(std::string name, const WorkGrid& grid);

  [[nodiscard]] bool inside_operation() const { return depth_ > 0; }
  // Clears the log, between operations; keeps its events.
  void clear();
  // Waits for all operations and sets their seconds. Only with `timed`.
  void read_times();

  [[nodiscard]] const std::vector<WorkOperation>& operations() const { return operations_; }
  [[nodiscard]] const std::vector<WorkItem>& items() const { return items_; }

 private:
  std::vector<WorkOperation> operations_;
  std::vector<WorkItem> items_;
  void record(std::size_t event, Stream& stream);

  const bool timed_;
  WorkLog* const outer_;
  std::vector<std::unique_ptr<Event>> events_;  // start and end of each operation
  int depth_ = 0;                               // of nested operations
  bool repeated_ = false;
  std::string range_;                 // open ranges
  std::vector<std::size_t> lengths_;  // length of range_ before each of them
};

namespace detail {
inline constinit thread_local WorkLog* current_work_log = nullptr;
}
inline WorkLog* WorkLog::current() {
  return detail::current_work_log;
}

// While one lives, operations repeat those of a forward for its backward.
class RepeatedWork {
 public:
  RepeatedWork() : log_(WorkLog::current()), before_(log_ != nullptr && log_->repeat(true)) {}
  ~RepeatedWork() {
    if (log_ != nullptr) log_->repeat(before_);
  }
  RepeatedWork(const RepeatedWork&) = delete;
  RepeatedWork& operator=(const RepeatedWork&) = delete;

 private:
  WorkLog* log_;
  bool before_;
};

// Around an operation; `traffic` is only called while a log exists.
class OperationScope {
 public:
  template <typename GetTraffic>
  OperationScope(const char* name, Stream& stream, const GetTraffic& traffic)
      : log_(WorkLog::current()), stream_(stream) {
    if (log_ != nullptr) log_->begin_operation(name, stream, traffic());
  }
  ~OperationScope() {
    if (log_ != nullptr) log_->end_operation(stream_);
  }
  OperationScope(const OperationScope&) = delete;
  OperationScope& operator=(const OperationScope&) = delete;

 private:
  WorkLog* log_;
  Stream& stream_;
};

}  // namespace trireme
