// SPDX-License-Identifier: Apache-2.0
#include "data/staging/staging.h"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <unordered_set>

#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

constexpr int low_priority = 10;
// Between polls of other processes' work.
constexpr std::chrono::milliseconds look_again{50};

}  // namespace

std::vector<StageSource> stage_sources(std::span<const Dataset* const> sets) {
  std::vector<StageSource> sources;
  std::unordered_set<std::string> known;
  for (const Dataset* const set : sets) {
    std::unordered_set<std::string> shards;
    for (const Shard& shard : set->shards())
      shards.insert(shard.path);
    for (const std::string& path : set->files()) {
      if (!known.insert(path).second) continue;
      const FileState state = state_of_file(path);
      if (state.size > 0) sources.push_back({path, state, shards.contains(path)});
    }
  }
  return sources;
}

Staging::Staging(StageDirectory directory, std::vector<StageSource> sources, std::uint64_t job,
                 bool reports)
    : directory_(std::move(directory)), reports_(reports) {
  for (StageSource& source : sources)
    pending_.push_back(std::make_unique<StagedCopy>(std::move(source), directory_.files(), job));
  thread_ = std::thread([this] { run(); });
}

Staging::~Staging() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void Staging::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ended_; });
}

bool Staging::stopping() {
  const std::lock_guard lock(mutex_);
  return stop_;
}

void Staging::run() {
  // For this thread only; if it is refused, the thread competes.
  static_cast<void>(::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), low_priority));
  const auto start = std::chrono::steady_clock::now();
  while (!stopping()) {
    switch (advance_first()) {
      case StagedCopy::State::waiting: {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, look_again, [&] { return stop_; });
        break;
      }
      case StagedCopy::State::complete:
        if (reports_) report(seconds_since(start));
        break;
      default:
        break;
    }
    if (pending_.empty()) break;
  }
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

// Works on the first file with work to do, to complete it soon.
StagedCopy::State Staging::advance_first() {
  for (auto it = pending_.begin(); it != pending_.end(); ++it) {
    const StagedCopy::State state = (*it)->advance([this] { return stopping(); });
    if (state == StagedCopy::State::waiting) continue;
    if (state == StagedCopy::State::complete) complete_.push_back(std::move(*it));
    if (state != StagedCopy::State::worked) pending_.erase(it);
    return state;
  }
  return StagedCopy::State::waiting;
}

// After the last file.
void Staging::report(double seconds) const {
  if (!pending_.empty()) return;
  std::uint64_t bytes = 0, copied = 0;
  for (const auto& copy : complete_) {
    bytes += copy->source().state.size;
    copied += copy->bytes_copied();
  }
  log::get("data").info(
      "data.stage: {} file(s), {:.1f} MB, are read from {} now, after {:.1f} s; "
      "this rank copied {:.1f} MB",
      complete_.size(), 1e-6 * static_cast<double>(bytes), directory_.files().path(), seconds,
      1e-6 * static_cast<double>(copied));
}

}  // namespace trireme
