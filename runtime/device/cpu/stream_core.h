// SPDX-License-Identifier: Apache-2.0
// The queue behind a CPU stream that has a worker thread: a fixed ring of tasks stored in place, so
// that enqueueing never allocates. Tasks are numbered from 1 by tickets; an event is a ticket.
//
// The worker and those who push share two counters and a lock only for sleeping: with one mutex for
// all, each task of a burst cost 4 us of handing that mutex from core to core, and costs 0.1 now.
// Who sleeps says so first and looks at the counter afterwards, who counts does it the other way
// round (both sequentially consistent), so no wake-up is lost.
//
// Failure: the first task that throws fails the stream. Later tasks are skipped (their tickets
// still count as done), and whoever waits for a ticket at or after the failed one gets that first
// error.
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
  static constexpr std::size_t task_bytes = 160;
  static constexpr std::size_t capacity = 256;

  StreamCore() = default;
  StreamCore(const StreamCore&) = delete;
  StreamCore& operator=(const StreamCore&) = delete;

  // Blocks while the ring is full. A task may not enqueue on its own stream: with a full ring
  // nobody would make room.
  template <typename F>
  Ticket push(F&& function) {
    using Task = std::decay_t<F>;
    static_assert(sizeof(Task) <= task_bytes, "the task captures too much; capture pointers");
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
  // For unwinding: fails the stream unless it is idle, so that what is queued is skipped, and lets
  // a running task know through current_cancelled().
  void cancel() noexcept;
  void await_idle() const noexcept;

  // True in a task whose stream was cancelled; tasks that poll for something give up then.
  [[nodiscard]] static bool current_cancelled() noexcept;
  // True in a task of a stream that somebody waits for.
  [[nodiscard]] static bool current_awaited() noexcept;
  // True on the worker thread of any stream.
  [[nodiscard]] static bool on_worker() noexcept;

 private:
  struct Slot {
    alignas(std::max_align_t) std::byte storage[task_bytes];
    void (*run)(void*) = nullptr;
    void (*destroy)(void*) noexcept = nullptr;
  };
  // An exception as values: every waiter raises a fresh Error, on its own thread.
  struct Failure {
    ExitCode code;
    std::string message;
    Ticket ticket;
  };

  // The slot of the next ticket; waits for it.
  [[nodiscard]] Slot& free_slot();
  void wake_worker();
  // False once the queue is closed and empty.
  [[nodiscard]] bool await_work();
  [[nodiscard]] static std::optional<Failure> execute(Slot& slot, bool skip,
                                                      Ticket ticket) noexcept;
  void complete(Ticket ticket, std::optional<Failure> failure);
  // Returns when `ticket` is done, whatever failed.
  void await_done(Ticket ticket) const noexcept;

  static constexpr Ticket nobody = ~Ticket{0};

  std::mutex pushing_;                            // one pushes at a time
  mutable std::mutex mutex_;                      // sleeping, and failure_
  std::condition_variable work_;                  // the worker waits for tasks
  mutable std::condition_variable done_;          // others wait for tickets
  std::atomic<bool> sleeping_ = false;            // the worker is on its way to sleep or asleep
  mutable std::atomic<Ticket> awaited_ = nobody;  // the earliest ticket that somebody waits for
  std::atomic<Ticket> pushed_ = 0;
  std::atomic<Ticket> completed_ = 0;
  std::atomic<bool> closed_ = false, cancelled_ = false, failed_ = false;
  std::optional<Failure> failure_;
  std::array<Slot, capacity> ring_;
};

}  // namespace trireme
