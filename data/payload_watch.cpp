// SPDX-License-Identifier: Apache-2.0
#include "data/payload_watch.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "data/verify.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

constexpr int lowest_priority = 19;

}  // namespace

PayloadWatch::PayloadWatch(const Dataset& data, const PayloadWatchOptions& options)
    : options_(options), block_start_(std::chrono::steady_clock::now()) {
  TRIREME_EXPECTS(options.rank < options.ranks && options.share > 0, "rank {} of {}, share {}",
                  options.rank, options.ranks, options.share);
  for (std::size_t i = options.rank; i < data.shards().size(); i += options.ranks) {
    shards_.push_back(data.shards()[i]);
    stamps_.push_back(stamp_of(shards_.back().path));
    left_ +=
        shards_.back().data_bytes() + shards_.back().index_bytes() + shards_.back().mask_bytes();
  }
  if (!shards_.empty()) thread_ = std::thread([this] { run(); });
}

PayloadWatch::~PayloadWatch() {
  give(Order::stop);
  if (thread_.joinable()) thread_.join();
}

void PayloadWatch::check() const {
  if (failed_.load(std::memory_order_acquire)) std::rethrow_exception(error_);
}

std::size_t PayloadWatch::finish() {
  give(Order::finish);
  if (thread_.joinable()) thread_.join();
  check();
  return verified_;
}

std::optional<FileStamp> PayloadWatch::stamp_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    if (errno != ENOENT) return std::nullopt;
    fail(ExitCode::data, "{}: was removed while the run reads it; keep data in place until it ends",
         path);
  }
  return stamp_of_file(path);
}

void PayloadWatch::run() {
  // For this thread only. If it is refused, the time share still applies.
  static_cast<void>(::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), lowest_priority));
  try {
    verify_all();
    for (Order order = Order::go_on; order == Order::go_on;) {
      order = wait(options_.interval);
      if (order != Order::stop) look();
    }
  } catch (const Stopped&) {  // nothing was found
  } catch (...) {
    error_ = std::current_exception();
    failed_.store(true, std::memory_order_release);
  }
}

void PayloadWatch::verify_all() {
  struct Enough {};
  try {
    for (const Shard& shard : shards_) {
      verify_rest(shard, [&](std::uint64_t bytes) {
        left_ -= bytes;
        if (pace() == Order::finish && left_ > options_.last_bytes) throw Enough{};
      });
      ++verified_;
    }
  } catch (const Enough&) {  // the run is over
  }
}

void PayloadWatch::look() {
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    const std::optional<FileStamp> now = stamp_of(shards_[i].path);
    if (!now) continue;
    if (stamps_[i] && !difference(*stamps_[i], *now).empty()) verify_changed(i);
    stamps_[i] = now;
  }
}

void PayloadWatch::verify_changed(std::size_t index) {
  const Shard& before = shards_[index];
  try {
    const Shard now = open_shard(before.path);
    if (now.header_checksum != before.header_checksum) {
      fail(ExitCode::data, "{}: holds other data than before", before.path);
    }
    verify_payload(now, [&](std::uint64_t) { static_cast<void>(pace()); });
  } catch (const Error& error) {
    fail(ExitCode::data,
         "{}: was changed while the run read it (size, inode or mtime), so the data of the steps "
         "since then is unknown: {}",
         before.path, error.what());
  }
  log::get("data").info("{}: was written again while the run reads it, with the same content",
                        before.path);
}

// Sleeps long enough that reading and checking keep their share of time.
PayloadWatch::Order PayloadWatch::pace() {
  const std::chrono::duration<double> busy = std::chrono::steady_clock::now() - block_start_;
  const Order order = wait(busy * (1 / options_.share - 1));
  if (order == Order::stop) throw Stopped{};
  block_start_ = std::chrono::steady_clock::now();
  return order;
}

PayloadWatch::Order PayloadWatch::wait(std::chrono::duration<double> time) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, time, [&] { return order_ != Order::go_on; });
  return order_;
}

void PayloadWatch::give(Order order) {
  const std::lock_guard lock(mutex_);
  order_ = order;
  changed_.notify_all();
}

}  // namespace trireme
