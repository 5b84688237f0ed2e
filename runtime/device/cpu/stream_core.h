// SPDX-License-Identifier: Apache-2.0
// The queue of a CPU stream with a worker thread: a fixed ring of tasks stored in place, so that
// enqueueing never allocates. Tasks are numbered from 1 by tickets; an event is a ticket.
//
// Worker and pushers share two counters, and use a lock only to sleep: with a single mutex each
// task of a burst took 4 us to pass it between cores, now 0.1 us. A sleeper first announces itself
// and then reads the counter; a counter update does the reverse (both sequentially consistent), so
// no wake-up is lost.
//
// Failure: the first task that throws fails the stream. Later tasks are skipped (their tickets
// count as done), and waits for a ticket at or after the failed one raise that first error.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "runtime/base/error.h"

namespace trireme {

class StreamCore {
 public:
  using Ticket = std::uint64_t;
  static constexpr std::size_t task_bytes = 240;
  static constexpr std::size_t capacity = 1024;

  StreamCore() = default;
  StreamCore(const StreamCore&) = delete;
  StreamCore& operator=(const StreamCore&) = delete;

  // Blocks while the ring is full. A task must not enqueue on its own stream: a full ring would
  // deadlock.
  template <typename F>
  Ticket push(F&& function) {
    using Task = std::decay_t<F>;
    static_assert(sizeof(Task) <= task_bytes,
                  "the task's captures are too large; capture pointers");
    static_assert(alignof(Task) <= alignof(std::max_align_t));
    const std::lock_guard pushing(pushing_);
    Slot& slot = free_slot();
    ::new (static_cast<void*>(slot.storage)) Task(std::forward<F>(function));
    slot.run = [](void* task) { (*static_cast<Task*>(task))(); };
    slot.destroy = [](void* task) noexcept { static_cast<Task*>(task)->~Task(); };
    const Ticket ticket = ++pushed_;
    if (sleeping_) wake_worker();
    return ticket;
  }

  [[nodiscard]] bool done(Ticket ticket) const;
  // Blocks until `ticket` is done. Raises the stream's error if it arose at or before `ticket`.
  void await(Ticket ticket) const;
  // await() for everything pushed so far.
  void await_all() const;

  // The worker's loop; returns after close() once the ring is empty.
  void run();
  void close();
  // For unwinding: fails the stream unless it is idle, so that queued tasks are skipped, and
  // informs a running task through current_cancelled().
  void cancel() noexcept;
  void await_idle() const noexcept;

  // True in a task whose stream was cancelled; polling tasks then give up.
  [[nodiscard]] static bool current_cancelled() noexcept;
  // True in a task of a stream that a thread waits for.
  [[nodiscard]] static bool current_awaited() noexcept;
  // True on the worker thread of any stream.
  [[nodiscard]] static bool on_worker() noexcept;

 private:
  struct Slot {
    alignas(std::max_align_t) std::byte storage[task_bytes];
    void (*run)(void*) = nullptr;
    void (*destroy)(void*) noexcept = nullptr;
  };
  // An exception as values, so that each waiter raises its own Error on its own thread.
  struct Failure {
    ExitCode code;
    std::string message;
    Ticket ticket;
  };

  // Waits for the slot of the next ticket and returns it.
  [[nodiscard]] Slot& free_slot();
  void wake_worker();
  // False once the queue is closed and empty.
  [[nodiscard]] bool await_work();
  [[nodiscard]] static std::optional<Failure> execute(Slot& slot, bool skip,
                                                      Ticket ticket) noexcept;
  void complete(Ticket ticket, std::optional<Failure> failure);
  // Returns when `ticket` is done, despite failures.
  void await_done(Ticket ticket) const noexcept;

  static constexpr Ticket nobody = ~Ticket{0};

  std::mutex pushing_;                            // one pushes at a time
  mutable std::mutex mutex_;                      // sleeping, and failure_
  std::condition_variable work_;                  // the worker waits for tasks
  mutable std::condition_variable done_;          // others wait for tickets
  std::atomic<bool> sleeping_ = false;            // the worker sleeps or is about to
  mutable std::atomic<Ticket> awaited_ = nobody;  // the earliest ticket that a thread waits for
  std::atomic<Ticket> pushed_ = 0;
  std::atomic<Ticket> completed_ = 0;
  std::atomic<bool> closed_ = false, cancelled_ = false, failed_ = false;
  std::optional<Failure> failure_;
  std::array<Slot, capacity> ring_;
};

}  // namespace trireme
