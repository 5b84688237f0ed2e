// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cpu/stream_core.h"

#include <exception>

namespace trireme {
namespace {

thread_local const StreamCore* current_core = nullptr;

}  // namespace

bool StreamCore::done(Ticket ticket) const {
  const std::lock_guard lock(mutex_);
  return completed_ >= ticket;
}

void StreamCore::await(Ticket ticket) const {
  std::unique_lock lock(mutex_);
  await_locked(lock, ticket);
}

void StreamCore::await_all() const {
  std::unique_lock lock(mutex_);
  await_locked(lock, pushed_);
}

void StreamCore::await_locked(std::unique_lock<std::mutex>& lock, Ticket ticket) const {
  TRIREME_EXPECTS(completed_ >= ticket || current_core != this,
                  "a task cannot wait for its own stream");
  ++waiting_;
  done_.wait(lock, [&] { return completed_ >= ticket; });
  --waiting_;
  if (failure_ && failure_->ticket <= ticket) throw Error(failure_->code, failure_->message);
}

void StreamCore::await_space(std::unique_lock<std::mutex>& lock) {
  TRIREME_EXPECTS(current_core != this, "a task cannot enqueue on its own stream");
  TRIREME_EXPECTS(!closed_, "enqueued on a stream that is being destroyed");
  ++pushing_;
  space_.wait(lock, [&] { return pushed_ - completed_ < capacity; });
  --pushing_;
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
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [&] { return pushed_ > completed_ || closed_; });
    if (pushed_ == completed_) return;
    Slot& slot = ring_[completed_ % capacity];
    const bool skip = failure_.has_value();
    const Ticket ticket = completed_ + 1;
    lock.unlock();
    std::optional<Failure> failure = execute(slot, skip, ticket);
    lock.lock();
    completed_ = ticket;
    if (failure && !failure_) failure_ = std::move(failure);
    if (waiting_ > 0) done_.notify_all();
    if (pushing_ > 0) space_.notify_one();
  }
}

void StreamCore::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  work_.notify_one();
}

void StreamCore::cancel() noexcept {
  const std::lock_guard lock(mutex_);
  if (pushed_ == completed_) return;
  if (!failure_) {
    failure_ = Failure{ExitCode::internal,
                       "the stream was cancelled because an exception ended the work around it",
                       completed_ + 1};
  }
  cancelled_.store(true, std::memory_order_relaxed);
}

void StreamCore::await_idle() const noexcept {
  std::unique_lock lock(mutex_);
  ++waiting_;
  done_.wait(lock, [&] { return completed_ == pushed_; });
  --waiting_;
}

bool StreamCore::current_cancelled() noexcept {
  return current_core != nullptr && current_core->cancelled_.load(std::memory_order_relaxed);
}

bool StreamCore::on_worker() noexcept {
  return current_core != nullptr;
}

}  // namespace trireme
