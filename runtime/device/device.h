// SPDX-License-Identifier: Apache-2.0
// Device, Stream, Event, Buffer: the only doors to memory and execution. Semantics are CUDA's on
// every back end: work enqueued on a stream runs in order, asynchronously to other streams, and
// events order streams. The CPU compute stream runs inline (enqueueing is doing); CPU comm and copy
// streams each have a worker thread. There is no default stream.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/shape.h"

namespace trireme {

class Device;

enum class DeviceType : std::uint8_t { cpu, cuda };
enum class StreamKind : std::uint8_t {
  compute,
  comm,
  link,  // as comm; of messages that a neighbour stands and waits for
  copy
};
enum class MemoryKind : std::uint8_t {
  device,  // what kernels read and write
  host     // page-locked where the back end can; the source and target of asynchronous copies
};

enum class EventKind : std::uint8_t {
  order,   // for wait(), reached() and synchronize()
  timed,   // also milliseconds_since(), which costs a GPU a time stamp
  awaited  // as order; synchronize() gives its core away, for threads beside the one of the steps
};

[[nodiscard]] std::string_view name_of(DeviceType type);
[[nodiscard]] std::string_view name_of(MemoryKind kind);

// A point in a stream's work. Re-recording moves it. An event that was never recorded counts as
// reached.
class Event {
 public:
  virtual ~Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  // True once all work before the last record is done. Does not block.
  [[nodiscard]] virtual bool reached() const = 0;
  // Blocks the host until reached. Raises the error of a stream task that failed before this point.
  virtual void synchronize() = 0;
  // Milliseconds from `start` to this event; both must be reached and EventKind::timed.
  [[nodiscard]] virtual double milliseconds_since(const Event& start) const = 0;

 protected:
  Event() = default;
};

// How matmuls of f32 operands are computed.
enum class MatmulPrecision : std::uint8_t {
  fp32,
  tf32  // operands rounded to 10 bits of mantissa for the tensor cores; CUDA only
};

// How operations on a stream compute, where there is a choice; read when one is enqueued. All but
// `reproducible` speak of CUDA only.
struct ExecutionPolicy {
  MatmulPrecision matmul = MatmulPrecision::fp32;
  // The same operands give the same bits in every run, also where that takes longer or more memory.
  bool reproducible = true;
  // Matmuls and convolutions also compute what follows them (GELU, bias gradients, sums), before
  // their result is rounded.
  bool fused_epilogues = false;
  // Multiprocessors that matmuls leave to collectives, which run beside them.
  int reserved_processors = 0;
};

// What becomes of the work that is asked of a device. What is not run is only noted (work_log.h).
enum class Execution : std::uint8_t {
  run,
  host,  // operations run on the host up to what they would launch
  none   // operations are not even called
};

class Stream {
 public:
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  virtual void record(Event& event) = 0;
  // Work enqueued from here on starts after `event` (as recorded at the time of this call).
  virtual void wait(Event& event) = 0;
  // Blocks the host until all enqueued work is done. Raises the first error of a failed task.
  virtual void synchronize() = 0;
  [[nodiscard]] virtual StreamKind kind() const = 0;
  [[nodiscard]] virtual Device& device() const = 0;
  // Inside Device::capture: what is enqueued is recorded, and events mean nothing to the host.
  [[nodiscard]] virtual bool capturing() const { return false; }
  void set_policy(const ExecutionPolicy& policy) { policy_ = policy; }
  [[nodiscard]] const ExecutionPolicy& policy() const { return policy_; }

 protected:
  Stream() = default;

 private:
  ExecutionPolicy policy_;
};

// What memory is for, as messages name it. Buffers made during the life of a MemoryScope, on its
// thread, are for its role.
enum class MemoryRole : std::uint8_t {
  other,
  parameters,
  gradients,
  optimizer,
  activations,
  staging,   // batches on their way
  workspace  // of operations and libraries
};
inline constexpr std::size_t memory_roles = 7;

[[nodiscard]] std::string_view name_of(MemoryRole role);

class MemoryScope {
 public:
  explicit MemoryScope(MemoryRole role);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

 private:
  MemoryRole before_;
};

// ExitCode::internal. Says what was asked for and what the rest is taken by.
class OutOfMemory final : public Error {
 public:
  OutOfMemory(const std::string& message, MemoryRole role, std::size_t bytes, std::size_t room)
      : Error(ExitCode::internal, message), role(role), bytes(bytes), room(room) {}
  MemoryRole role;
  std::size_t bytes;  // for this role: held and asked for
  std::size_t room;   // held for it and free
};

// Owns memory of a device. Move only; the moved-from buffer is empty. 64-byte aligned; the contents
// are undefined until written. A buffer of zero bytes allocates nothing and its data() is null.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Device& device, std::size_t bytes, MemoryKind kind);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer(std::move(other)).swap(*this);
    return *this;
  }
  void swap(Buffer& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(kind_, other.kind_);
    std::swap(role_, other.role_);
  }

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] MemoryKind kind() const { return kind_; }
  // The whole buffer, or its start, seen as a tensor; the bytes must suffice.
  [[nodiscard]] Tensor view(DType dtype, const Shape& shape) const;

 private:
  Device* device_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  MemoryKind kind_ = MemoryKind::device;
  MemoryRole role_ = MemoryRole::other;
};

struct MemoryUse {
  std::size_t current_bytes = 0;
  std::size_t peak_bytes = 0;
  std::uint64_t allocations = 0;                    // since start; a steady training step adds none
  std::array<std::size_t, memory_roles> by_role{};  // of current_bytes
};

// Where a process stands among those of its host.
struct DevicePlace {
  int local_rank = 0;  // chooses the GPU
  int local_size = 1;
  bool share = false;  // several ranks may take turns on one GPU
};

// A recorded piece of a stream's work (a CUDA graph): replayed in one launch, on the same memory.
class Graph {
 public:
  virtual ~Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  virtual void launch(Stream& stream) = 0;

 protected:
  Graph() = default;
};

class Device {
 public:
  // Raises ExitCode::config when the back end is not in this build, finds no device or has fewer
  // of them than ranks, saying what is missing.
  [[nodiscard]] static std::unique_ptr<Device> create(DeviceType type,
                                                      const DevicePlace& place = {});
  [[nodiscard]] static bool in_build(DeviceType type);
  // How many this process could use; 0 also where the driver is missing.
  [[nodiscard]] static int count(DeviceType type) noexcept;
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] virtual DeviceType type() const = 0;
  [[nodiscard]] virtual Execution execution() const { return Execution::run; }
  [[nodiscard]] virtual std::unique_ptr<Stream> make_stream(StreamKind kind) = 0;
  [[nodiscard]] virtual std::unique_ptr<Event> make_event(EventKind kind = EventKind::order) = 0;
  // Asynchronous on `stream`; host memory must come from MemoryKind::host and stay alive until
  // done.
  virtual void copy(Stream& stream, void* to, const void* from, std::size_t bytes) = 0;
  virtual void fill_zero(Stream& stream, void* to, std::size_t bytes) = 0;
  // Records what `work` enqueues on `stream`, and on streams that wait for it and that it waits for
  // again, instead of running it. Everything must have run once before. Raises ExitCode::config
  // where the device cannot or `work` does what a graph cannot hold, with the reason; nothing has
  // run then.
  [[nodiscard]] virtual std::unique_ptr<Graph> capture(Stream& stream,
                                                       const std::function<void()>& work) = 0;
  // True where this device computes in bf16 natively (else bf16 matmuls are computed in fp32 and
  // rounded).
  [[nodiscard]] virtual bool has_native_bf16() const = 0;
  // What live Buffers hold, in bytes as asked for. Thread-safe.
  [[nodiscard]] MemoryUse memory_use(MemoryKind kind) const;

 protected:
  Device() = default;
  // Returns 64-byte aligned memory or raises OutOfMemory.
  [[nodiscard]] virtual std::byte* allocate(std::size_t bytes, MemoryKind kind) = 0;
  virtual void release(std::byte* data, std::size_t bytes, MemoryKind kind) noexcept = 0;
  // `place`: "the host" or "GPU 0"; of its `total` bytes, `free` are left (0: not known).
  [[noreturn]] void out_of_memory(std::size_t bytes, MemoryKind kind, std::string_view place,
                                  std::size_t free = 0, std::size_t total = 0) const;

 private:
  friend class Buffer;
  void note_allocated(std::size_t bytes, MemoryKind kind, MemoryRole role);
  void note_released(std::size_t bytes, MemoryKind kind, MemoryRole role) noexcept;

  mutable std::mutex use_mutex_;  // loader threads make buffers too
  MemoryUse use_[2];
};

}  // namespace trireme
