// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/nccl/nccl_handle.h"

#include <chrono>
#include <exception>

#include "runtime/base/log.h"
#include "runtime/comm/host/backoff.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

// The lock is held only for single NCCL calls; one that hangs is left until the process ends.
constexpr std::chrono::seconds abort_patience{1};

}  // namespace

NcclHandle::NcclHandle(std::string name, CommRole role, std::shared_ptr<const NcclOptions> options)
    : name_(std::move(name)), role_(role), options_(std::move(options)) {}

NcclHandle::NcclHandle(std::vector<ncclUniqueId>& ids, int ranks, int rank, std::string name,
                       std::shared_ptr<const NcclOptions> options)
    : NcclHandle(std::move(name), CommRole::control, std::move(options)) {
  Lock lock(mutex_);
  ncclConfig_t settings = config();
  try {
    TRIREME_NCCL(ncclCommInitRankScalable(&comm_, ranks, rank, static_cast<int>(ids.size()),
                                          ids.data(), &settings));
  } catch (const Error& error) {
    raise(error);
  }
  NcclMonitor::add(*this);
  await_ready(lock);
}

NcclHandle::~NcclHandle() {
  NcclMonitor::remove(*this);
  Lock lock(mutex_);
  if (aborted_ || comm_ == nullptr) return;
  if (std::uncaught_exceptions() > 0) {
    abort_locked();
    return;
  }
  try {
    TRIREME_NCCL(ncclCommFinalize(comm_));  // completes calls that are still queued
    await_ready(lock);
    TRIREME_NCCL(ncclCommDestroy(comm_));
  } catch (const std::exception& error) {
    log::get("comm").warn("group {} could not be closed: {}", name_, error.what());
  }
}

ncclConfig_t NcclHandle::config() const {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;    // a blocking communicator cannot be aborted while a call waits for peers
  config.splitShare = 0;  // Note [Groups share nothing]
  config.commName = name_.c_str();
  if (options_->ctas.least > 0) config.minCTAs = options_->ctas.least;
  config.maxCTAs = options_->ctas.most_of(role_);
  if (!options_->net.empty()) config.netName = options_->net.c_str();
  return config;
}

std::unique_ptr<NcclHandle> NcclHandle::split(std::optional<int> color, int key, std::string name,
                                              CommRole role) {
  Lock lock(mutex_);
  expect_usable();
  std::unique_ptr<NcclHandle> part(new NcclHandle(std::move(name), role, options_));
  Lock part_lock(part->mutex_);
  ncclConfig_t settings = part->config();
  try {
    TRIREME_NCCL(ncclCommSplit(comm_, color.value_or(NCCL_SPLIT_NOCOLOR), key, &part->comm_,
                               color ? &settings : nullptr));
  } catch (const Error& error) {
    raise(error);
  }
  await_ready(lock);
  if (part->comm_ == nullptr) {
    part_lock.unlock();
    return nullptr;
  }
  NcclMonitor::add(*part);
  log::get("comm").debug("group {} is for {}: at most {} thread blocks a call", part->name_,
                         name_of(role), options_->ctas.most_of(role));
  part->await_ready(part_lock);
  part_lock.unlock();
  return part;
}

void NcclHandle::begin(const Call& call) {
  expect_usable();
  ++calls_;
  last_ = call;
  label_ = current_comm_label();
}

void NcclHandle::expect_usable() const {
  if (aborted_) fail(ExitCode::communication, "{}: the group was aborted", where());
}

// A non-blocking communicator may need several polls: it connects lazily, and its own thread
// enqueues the kernels.
void NcclHandle::await_ready(Lock& lock) {
  const auto start = Clock::now();
  Backoff backoff;
  for (;;) {
    expect_usable();
    ncclResult_t state = ncclSuccess;
    ncclResult_t result = ncclCommGetAsyncError(comm_, &state);
    if (result == ncclSuccess) result = state;
    if (result == ncclSuccess) return;
    if (result != ncclInProgress) {
      const std::string reason = detail::text_of(result);
      abort_locked();
      fail(ExitCode::communication, "{}: {}", where(), reason);
    }
    const double waited = std::chrono::duration<double>(Clock::now() - start).count();
    if (options_->deadline_seconds > 0 && waited > options_->deadline_seconds) {
      abort_locked();
      fail(ExitCode::communication,
           "{}: NCCL was not ready after {:.1f} s (deadline {} s); a rank of the group is late, "
           "dead or unreachable",
           where(), waited, options_->deadline_seconds);
    }
    lock.unlock();
    backoff.pause();
    lock.lock();
  }
}

std::optional<std::string> NcclHandle::asynchronous_error() {
  const Lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || aborted_ || comm_ == nullptr) return {};  // the next poll will tell
  ncclResult_t state = ncclSuccess;
  ncclResult_t result = ncclCommGetAsyncError(comm_, &state);
  if (result == ncclSuccess) result = state;
  if (result == ncclSuccess || result == ncclInProgress) return {};
  return fmt::format("{}: {}", where(), detail::text_of(result));
}

void NcclHandle::abort() noexcept {
  const Lock lock(mutex_, abort_patience);
  if (lock.owns_lock()) abort_locked();
}

void NcclHandle::abort_locked() noexcept {
  if (std::exchange(aborted_, true) || comm_ == nullptr) return;
  static_cast<void>(ncclCommAbort(comm_));  // unchecked: nothing better is left to do
  comm_ = nullptr;
}

std::string NcclHandle::where() const {
  if (calls_ == 0) return fmt::format("group {}, setting up NCCL", name_);
  return fmt::format("group {}, in or after {}, NCCL call number {}{}", name_, last_.to_string(),
                     calls_, label_.to_string());
}

void NcclHandle::raise(const Error& error) const {
  throw Error(error.code(), fmt::format("{}: {}", where(), error.what()));
}

}  // namespace trireme
