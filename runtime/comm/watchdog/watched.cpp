// SPDX-License-Identifier: Apache-2.0
// The Watched decorator. On a CPU stream a call becomes one task that logs its start in the group's
// CallLog, makes the inner group's call on an inline stream, and logs its end. So a watched call
// costs its stream no additional task; the watchdog's thread reads the log. On other streams the
// inner group's call is enqueued between two events (watch_marks.h).
#include "runtime/comm/watchdog/watched.h"

#include <atomic>
#include <exception>

#include "runtime/comm/host_stream.h"
#include "runtime/comm/watchdog/start_watch.h"
#include "runtime/comm/watchdog/watchdog.h"
#include "runtime/device/cpu/cpu_stream.h"

namespace trireme {
namespace {

// By default the calls first..last count as failed when this goes out of scope.
class Outcome {
 public:
  Outcome(CallLog& log, CallLog::Id first, CallLog::Id last)
      : log_(log), first_(first), last_(last) {}
  ~Outcome() {
    if (state_ != CallState::started) log_.finish(first_, last_, state_);
  }
  Outcome(const Outcome&) = delete;
  Outcome& operator=(const Outcome&) = delete;
  void done() { state_ = CallState::done; }
  void still_started() { state_ = CallState::started; }

 private:
  CallLog& log_;
  CallLog::Id first_;
  CallLog::Id last_;
  CallState state_ = CallState::failed;
};

// Used by queued tasks; lives until the last one is done.
class WatchedGroup {
 public:
  WatchedGroup(std::unique_ptr<Communicator> inner, std::shared_ptr<CallLog> log)
      : log_(std::move(log)), inner_(std::move(inner)) {}

  [[nodiscard]] Communicator& inner() { return *inner_; }
  [[nodiscard]] CallLog& log() { return *log_; }
  [[nodiscard]] const std::shared_ptr<CallLog>& shared_log() const { return log_; }

  void run(const Call& call, CallLog::Id id) {
    Outcome outcome(*log_, id, id);
    make(call, id);
    outcome.done();
  }
  void run_in_group(const Call& call, CallLog::Id id, bool first) {
    Outcome outcome(*log_, id, id);
    if (first) inner_->group_begin();
    make(call, id);
    outcome.still_started();
  }
  void end_group(CallLog::Id first, CallLog::Id last) {
    Outcome outcome(*log_, first, last);
    const ScopedCommLabel label(log_->label(last));
    inner_->group_end(*stream_);
    outcome.done();
  }
  // Leaks it until the process ends.
  static void abandon(const std::shared_ptr<WatchedGroup>& group) { group->self_ = group; }

 private:
  void make(const Call& call, CallLog::Id id) {
    const ScopedCommLabel label(log_->start(id));
    inner_->issue(*stream_, call);
  }

  std::shared_ptr<CallLog> log_;
  HostStream stream_;
  std::unique_ptr<Communicator> inner_;
  std::shared_ptr<WatchedGroup> self_;
};

class WatchedCommunicator final : public Communicator {
 public:
  WatchedCommunicator(std::unique_ptr<Communicator> inner, std::shared_ptr<Watchdog> watchdog,
                      std::shared_ptr<CallLog> log)
      : Communicator(inner->rank(), inner->size(), inner->name(), counters_of(*inner)),
        watchdog_(std::move(watchdog)),
        marks_(std::make_shared<WatchMarks>(log)),
        group_(std::make_shared<WatchedGroup>(std::move(inner), std::move(log))) {
    watchdog_->add(group_->shared_log(), marks_);
  }
  ~WatchedCommunicator() override {
    const auto log = group_->shared_log();
    watchdog_->retire(log.get());
    // A rank that unwinds frees nothing that its peers use.
    if (std::uncaught_exceptions() > 0) {
      WatchedGroup::abandon(group_);
      return;
    }
    group_.reset();
    marks_->close();
  }

  void barrier() override {
    const CallLog::Id id = begin_host_call(CallRecord::barrier);
    Outcome outcome(group_->log(), id, id);
    group_->inner().barrier();
    outcome.done();
  }
  [[nodiscard]] std::unique_ptr<Communicator> split(int color, int key, std::string name,
                                                    CommRole role) override;
  [[nodiscard]] std::unique_ptr<Communicator> host_sibling(std::string name) override;

 protected:
  void submit(Stream& stream, const Call& call) override {
    const CallLog::Id id = group_->log().add(record_of(call, 0));
    const bool first = starts_group();
    if (first) first_ = id;
    last_ = id;
    if (!is_host_stream(stream)) return submit_on_device(stream, call);
    if (in_group()) {
      enqueue(stream, [group = group_, call, id, first] { group->run_in_group(call, id, first); });
    } else {
      enqueue(stream, [group = group_, call, id] { group->run(call, id); });
    }
  }

  void submit_group_end(Stream& stream) override {
    if (!is_host_stream(stream)) {
      return on_device(stream, first_, last_, [&] { group_->inner().group_end(stream); });
    }
    enqueue(stream,
            [group = group_, first = first_, last = last_] { group->end_group(first, last); });
  }

 private:
  // Enqueues the calls between group_begin and group_end together, at the end.
  void submit_on_device(Stream& stream, const Call& call) {
    Communicator& inner = group_->inner();
    if (!in_group()) return on_device(stream, last_, last_, [&] { inner.issue(stream, call); });
    if (starts_group()) inner.group_begin();
    inner.issue(stream, call);
  }

  // enqueue() enqueues the calls first..last.
  template <typename F>
  void on_device(Stream& stream, CallLog::Id first, CallLog::Id last, F enqueue) {
    Outcome outcome(group_->log(), first, last);
    if (stream.capturing()) {  // calls in a graph cannot be tracked one by one
      enqueue();
      return outcome.done();
    }
    marks_->begin(stream, first, last);
    enqueue();
    marks_->end(stream);
    outcome.still_started();
  }

  [[nodiscard]] CallLog::Id begin_host_call(std::int32_t kind) {
    const CallLog::Id id = group_->log().add(host_record(kind, 0));
    static_cast<void>(group_->log().start(id));
    return id;
  }

  std::shared_ptr<Watchdog> watchdog_;
  std::shared_ptr<WatchMarks> marks_;
  std::shared_ptr<WatchedGroup> group_;
  // In the open group, or the last call.
  CallLog::Id first_ = 0;
  CallLog::Id last_ = 0;
};

// Exchanges the members' world ranks and agrees on a number for the group.
std::shared_ptr<CallLog> make_log(Communicator& group, int world_rank) {
  struct Member {
    std::uint32_t world_rank = 0;
    std::uint32_t groups = 0;
  };
  static std::atomic<std::uint32_t> groups_made{0};
  std::vector<Member> members(static_cast<std::size_t>(group.size()));
  Member own{static_cast<std::uint32_t>(world_rank), groups_made++};
  const auto bytes_of = [](std::span<Member> range) -> Tensor {
    return {reinterpret_cast<std::byte*>(range.data()), DType::u8,
            Shape{static_cast<std::int64_t>(range.size_bytes())}};
  };
  // On a temporary group, because calls of `group` itself are the caller's to count.
  const auto once = group.host_sibling(group.name() + ".members");
  const HostStream stream;
  once->all_gather(*stream, bytes_of({&own, 1}), bytes_of(members));
  std::vector<int> world_ranks;
  for (const Member& member : members)
    world_ranks.push_back(static_cast<int>(member.world_rank));
  const std::uint64_t id =
      (static_cast<std::uint64_t>(members[0].world_rank) << 32U) | members[0].groups;
  return std::make_shared<CallLog>(group.name(), id, group.rank(), std::move(world_ranks));
}

std::unique_ptr<Communicator> watch(std::unique_ptr<Communicator> inner,
                                    std::shared_ptr<Watchdog> watchdog) {
  // A single rank never waits.
  if (inner->size() == 1) return inner;
  auto log = make_log(*inner, watchdog->rank());
  return std::make_unique<WatchedCommunicator>(std::move(inner), std::move(watchdog),
                                               std::move(log));
}

std::unique_ptr<Communicator> WatchedCommunicator::split(int color, int key, std::string name,
                                                         CommRole role) {
  const CallLog::Id id = begin_host_call(CallRecord::split);
  Outcome outcome(group_->log(), id, id);
  auto part = watch(group_->inner().split(color, key, std::move(name), role), watchdog_);
  outcome.done();
  return part;
}

// Made by the inner group, which can omit the device part.
std::unique_ptr<Communicator> WatchedCommunicator::host_sibling(std::string name) {
  const CallLog::Id id = begin_host_call(CallRecord::split);
  Outcome outcome(group_->log(), id, id);
  auto sibling = watch(group_->inner().host_sibling(std::move(name)), watchdog_);
  outcome.done();
  return sibling;
}

}  // namespace

std::unique_ptr<Communicator> make_watched(std::unique_ptr<Communicator> inner,
                                           const WatchOptions& options) {
  if (options.deadline_seconds <= 0 || inner->size() == 1) return inner;
  const StartWait wait("making a watched group of all ranks");
  auto watchdog = Watchdog::of_process(options);
  TRIREME_EXPECTS(watchdog->size() == inner->size() && watchdog->rank() == inner->rank(),
                  "make_watched takes the world group, got rank {} of {} for rank {} of {}",
                  inner->rank(), inner->size(), watchdog->rank(), watchdog->size());
  return watch(std::move(inner), std::move(watchdog));
}

std::shared_ptr<void> keep_watchdog(const WatchOptions& options) {
  if (options.deadline_seconds <= 0) return nullptr;
  const StartWait wait("starting the watchdogs");
  return Watchdog::of_process(options);
}

}  // namespace trireme
