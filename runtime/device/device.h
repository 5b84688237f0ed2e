// SPDX-License-Identifier: Apache-2.0
// Device, Stream, Event, Buffer: all memory and execution go through them. Semantics are CUDA's on
// every back end: work enqueued on a stream runs in order, asynchronously to other streams, and
// events order streams. The CPU compute stream runs inline; CPU comm and copy streams have a worker
// thread each. There is no default stream.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
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
  link,  // like comm; for messages that a neighbour stage waits for
  copy
};
enum class MemoryKind : std::uint8_t {
  device,  // for kernels
  host     // page-locked if possible; for asynchronous copies
};

enum class EventKind : std::uint8_t {
  order,   // for wait(), reached() and synchronize()
  timed,   // also milliseconds_since(), which costs a time stamp on GPUs
  awaited  // like order; synchronize() yields the core, for threads beside the training thread
};

[[nodiscard]] std::string_view name_of(DeviceType type);
[[nodiscard]] std::string_view name_of(MemoryKind kind);

// A point in a stream's work. Recording again moves it. A never recorded event counts as reached.
class Event {
 public:
  virtual ~Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  // True once all work before the last record is done. Does not block.
  [[nodiscard]] virtual bool reached() const = 0;
  // Blocks the host until reached. Raises the error of a stream task that failed before it.
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

// How operations compute if there is a choice; read when one is enqueued. All but `reproducible`
// apply only to CUDA.
struct ExecutionPolicy {
  MatmulPrecision matmul = MatmulPrecision::fp32;
  // Equal operands give equal bits in every run, even if that costs time or memory.
  bool reproducible = true;
  // Matmuls and convolutions also compute the following op (GELU, bias gradients, sums) before
  // their result is rounded.
  bool fused_epilogues = false;
  // Multiprocessors that matmuls leave to concurrent collectives.
  int reserved_processors = 0;
};

// What happens to work enqueued on a device. Work that does not run is only logged (work_log.h).
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
  // Inside Device::capture: work is recorded, and events mean nothing to the host.
  [[nodiscard]] virtual bool capturing() const { return false; }
  void set_policy(const ExecutionPolicy& policy) { policy_ = policy; }
  [[nodiscard]] const ExecutionPolicy& policy() const { return policy_; }

 protected:
  Stream() = default;

 private:
  ExecutionPolicy policy_;
};

// During its life matmuls enqueued on `stream` leave `count` multiprocessors, or what the policy
// already reserves, to concurrent collectives.
class ReservedProcessors {
 public:
  ReservedProcessors(Stream& stream, int count) : stream_(stream), outer_(stream.policy()) {
    ExecutionPolicy policy = outer_;
    policy.reserved_processors = std::max(policy.reserved_processors, count);
    stream_.set_policy(policy);
  }
  ~ReservedProcessors() { stream_.set_policy(outer_); }
  ReservedProcessors(const ReservedProcessors&) = delete;
  ReservedProcessors& operator=(const ReservedProcessors&) = delete;

 private:
  Stream& stream_;
  ExecutionPolicy outer_;
};

// The use of memory, as messages name it. Buffers made on a thread during a MemoryScope have its
// role.
enum class MemoryRole : std::uint8_t {
  other,
  parameters,
  gradients,
  optimizer,
  activations,
  staging,   // batches in transit
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

// The message has the requested memory and the users of the rest. For a plan, before anything is
// allocated: ExitCode::config.
class OutOfMemory final : public Error {
 public:
  OutOfMemory(const std::string& message, MemoryRole role, std::size_t bytes, std::size_t room,
              ExitCode code = ExitCode::internal)
      : Error(code, message), role(role), bytes(bytes), room(room) {}
  MemoryRole role;
  std::size_t bytes;  // held and requested for this role
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

// A GPU's memory as its driver counts it, all processes included.
struct DeviceMemory {
  std::size_t free = 0, total = 0;
  std::string gpu;  // GpuFacts::id
};

// A process's place among those of its host.
struct DevicePlace {
  int local_rank = 0;  // selects the GPU
  int local_size = 1;
  bool share = false;  // several ranks may share a GPU
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
  // Raises ExitCode::config, naming the cause, if this build lacks the back end, or it finds fewer
  // devices than ranks.
  [[nodiscard]] static std::unique_ptr<Device> create(DeviceType type,
                                                      const DevicePlace& place = {});
  [[nodiscard]] static bool in_build(DeviceType type);
  // Number of usable devices; 0 without a driver.
  [[nodiscard]] static int count(DeviceType type) noexcept;
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] virtual DeviceType type() const = 0;
  [[nodiscard]] virtual Execution execution() const { return Execution::run; }
  [[nodiscard]] virtual std::unique_ptr<Stream> make_stream(StreamKind kind) = 0;
  [[nodiscard]] virtual std::unique_ptr<Event> make_event(EventKind kind = EventKind::order) = 0;
  // Asynchronous on `stream`; host memory must be MemoryKind::host and live until the copy is done.
  virtual void copy(Stream& stream, void* to, const void* from, std::size_t bytes) = 0;
  virtual void fill_zero(Stream& stream, void* to, std::size_t bytes) = 0;
  // Records what `work` enqueues on `stream`, and on streams that are forked from it and joined
  // again, instead of running it. Everything must have run once before. Raises ExitCode::config
  // with the reason if the device or a graph cannot do this; then nothing has run.
  [[nodiscard]] virtual std::unique_ptr<Graph> capture(Stream& stream,
                                                       const std::function<void()>& work) = 0;
  // Whether this device computes in bf16 natively (otherwise bf16 matmuls run in fp32 and are
  // rounded).
  [[nodiscard]] virtual bool has_native_bf16() const = 0;
  // Bytes of live Buffers, as requested. Thread-safe.
  [[nodiscard]] MemoryUse memory_use(MemoryKind kind) const;
  // Of a GPU; nothing where the host's memory is the device's, or nothing runs.
  [[nodiscard]] virtual std::optional<DeviceMemory> memory() const { return {}; }

 protected:
  Device() = default;
  // Returns 64-byte aligned memory or raises OutOfMemory.
  [[nodiscard]] virtual std::byte* allocate(std::size_t bytes, MemoryKind kind) = 0;
  virtual void release(std::byte* data, std::size_t bytes, MemoryKind kind) noexcept = 0;
  // `place`: "the host" or "GPU 0"; `free` of its `total` bytes are left (0: unknown).
  [[noreturn]] void out_of_memory(std::size_t bytes, MemoryKind kind, std::string_view place,
                                  std::size_t free = 0, std::size_t total = 0) const;

 private:
  friend class Buffer;
  void note_allocated(std::size_t bytes, MemoryKind kind, MemoryRole role);
  void note_released(std::size_t bytes, MemoryKind kind, MemoryRole role) noexcept;

  mutable std::mutex use_mutex_;  // loader threads also make buffers
  MemoryUse use_[2];
};

}  // namespace trireme
