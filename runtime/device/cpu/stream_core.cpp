// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cpu/stream_core.h"

#include <algorithm>
#include <exception>

namespace trireme {
namespace {

thread_local const StreamCore* current_core = nullptr;

}  // namespace

bool StreamCore::done(Ticket ticket) const {
  return completed_ >= ticket;
}

void StreamCore::await(Ticket ticket) const {
  TRIREME_EXPECTS(completed_ >= ticket || current_core != this,
                  "a task cannot wait for its own stream");
  await_done(ticket);
  if (!failed_) return;
  const std::lock_guard lock(mutex_);
  if (failure_->ticket <= ticket) throw Error(failure_->code, failure_->message);
}

void StreamCore::await_all() const {
  await(pushed_);
}

void StreamCore::await_done(Ticket ticket) const noexcept {
  if (completed_ >= ticket) return;
  std::unique_lock lock(mutex_);
  for (;;) {
    awaited_ = std::min<Ticket>(awaited_, ticket);
    if (completed_ >= ticket) return;
    done_.wait(lock);
  }
}

StreamCore::Slot& StreamCore::free_slot() {
  TRIREME_EXPECTS(current_core != this, "a task cannot enqueue on its own stream");
  TRIREME_EXPECTS(!closed_, "enqueued on a stream that is being destroyed");
  const Ticket next = pushed_ + 1;
  if (next > capacity) await_done(next - capacity);
  return ring_[(next - 1) % capacity];
}

void StreamCore::wake_worker() {
  { const std::lock_guard lock(mutex_); }
  work_.notify_one();
}

bool StreamCore::await_work() {
  // A task that follows within a microsecond finds the worker awake; spinning longer would take the
  // core from the computing thread.
  for (int i = 0; i < 1000; ++i) {
    if (pushed_ > completed_) return true;
  }
  std::unique_lock lock(mutex_);
  sleeping_ = true;
  work_.wait(lock, [&] { return pushed_ > completed_ || closed_; });
  sleeping_ = false;
  return pushed_ > completed_;
}

std::optional<StreamCore::Failure> StreamCore::execute(Slot& slot, bool skip,
                                                       Ticket ticket) noexcept {
  std::optional<Failure> failure;
  try {
    if (!skip) slot.run(slot.storage);
  } catch (const Error& error) {
    failure = Failure{error.code(), error.what(), ticket};
  } catch (const std::exception& error) {
    failure = Failure{ExitCode::internal, error.what(), ticket};
  } catch (...) {
    failure = Failure{ExitCode::internal, "a stream task threw an unknown exception", ticket};
  }
  slot.destroy(slot.storage);
  return failure;
}

void StreamCore::run() {
  current_core = this;
  while (await_work()) {
    const Ticket ticket = completed_ + 1;
    complete(ticket, execute(ring_[(ticket - 1) % capacity], failed_, ticket));
  }
}

void StreamCore::complete(Ticket ticket, std::optional<Failure> failure) {
  if (failure) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(failure);
    failed_ = true;
  }
  completed_ = ticket;
  if (awaited_ > ticket) return;
  {
    const std::lock_guard lock(mutex_);
    awaited_ = nobody;  // remaining waiters set it again
  }
  done_.notify_all();
}

void StreamCore::close() {
  closed_ = true;
  wake_worker();
}

void StreamCore::cancel() noexcept {
  const std::lock_guard lock(mutex_);
  if (pushed_ == completed_) return;
  if (!failure_) {
    failure_ = Failure{ExitCode::internal,
                       "the stream was cancelled because an exception ended the work around it",
                       completed_ + 1};
    failed_ = true;
  }
  cancelled_.store(true, std::memory_order_relaxed);
}

void StreamCore::await_idle() const noexcept {
  await_done(pushed_);
}

bool StreamCore::current_cancelled() noexcept {
  return current_core != nullptr && current_core->cancelled_.load(std::memory_order_relaxed);
}

bool StreamCore::current_awaited() noexcept {
  return current_core != nullptr && current_core->awaited_ != nobody;
}

bool StreamCore::on_worker() noexcept {
  return current_core != nullptr;
}

}  // namespace trireme
