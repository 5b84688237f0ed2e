// SPDX-License-Identifier: Apache-2.0
// The Watched decorator. Around each call it puts two tasks on the call's stream, which note in the
// group's CallLog that the call has started and that it is over; the watchdog's thread reads them.
#include "runtime/comm/watched.h"

#include <atomic>

#include "runtime/comm/watchdog.h"
#include "runtime/device/cpu/cpu_stream.h"

namespace trireme {
namespace {

// The second task. When it is dropped instead of run (an error, a failed stream), the calls have
// failed.
class EndOfCalls {
 public:
  EndOfCalls() = default;  // of no calls
  EndOfCalls(std::shared_ptr<CallLog> log, CallLog::Id first)
      : log_(std::move(log)), first_(first), last_(first) {}
  EndOfCalls(EndOfCalls&&) = default;
  EndOfCalls& operator=(EndOfCalls&&) = delete;
  ~EndOfCalls() {
    if (log_ != nullptr) log_->finish(first_, last_, CallState::failed);
  }
  void operator()() {
    log_->finish(first_, last_, CallState::done);
    log_.reset();
  }
  [[nodiscard]] CallLog::Id first() const { return first_; }
  [[nodiscard]] bool empty() const { return log_ == nullptr; }
  // One end for both.
  void join(EndOfCalls&& later) {
    if (empty()) {
      log_ = std::move(later.log_);
      first_ = later.first_;
    }
    last_ = later.last_;
    later.log_.reset();
  }

 private:
  std::shared_ptr<CallLog> log_;
  CallLog::Id first_ = 1;
  CallLog::Id last_ = 0;
};

class WatchedCommunicator final : public Communicator {
 public:
  WatchedCommunicator(std::unique_ptr<Communicator> inner, std::shared_ptr<Watchdog> watchdog,
                      std::shared_ptr<CallLog> log)
      : Communicator(inner->rank(), inner->size(), inner->name(), counters_of(*inner)),
        watchdog_(std::move(watchdog)),
        log_(std::move(log)),
        inner_(std::move(inner)) {
    watchdog_->add(log_);
  }
  ~WatchedCommunicator() override { watchdog_->retire(log_.get()); }

  void all_reduce(Stream& stream, const Tensor& in, const Tensor& out, ReduceOp op) override {
    submit(stream, make_reduce_call(*this, Verb::all_reduce, in, out, op), in, out);
  }
  void reduce_scatter(Stream& stream, const Tensor& in, const Tensor& out, ReduceOp op) override {
    submit(stream, make_reduce_call(*this, Verb::reduce_scatter, in, out, op), in, out);
  }
  void all_gather(Stream& stream, const Tensor& in, const Tensor& out) override {
    submit(stream, make_exchange_call(*this, Verb::all_gather, in, out), in, out);
  }
  void all_to_all(Stream& stream, const Tensor& in, const Tensor& out) override {
    submit(stream, make_exchange_call(*this, Verb::all_to_all, in, out), in, out);
  }
  void broadcast(Stream& stream, const Tensor& data, int root) override {
    submit(stream, make_peer_call(*this, Verb::broadcast, data, root), data, data);
  }
  void send(Stream& stream, const Tensor& data, int to) override {
    submit(stream, make_peer_call(*this, Verb::send, data, to), data, data);
  }
  void recv(Stream& stream, const Tensor& data, int from) override {
    submit(stream, make_peer_call(*this, Verb::recv, data, from), data, data);
  }

  void group_begin() override {
    inner_->group_begin();
    in_group_ = true;
  }
  void group_end(Stream& stream) override {
    in_group_ = false;
    EndOfCalls calls = std::move(group_);
    inner_->group_end(stream);
    if (!calls.empty()) enqueue(stream, std::move(calls));
  }

  void barrier() override {
    EndOfCalls end = begin_host_call(CallRecord::barrier);
    inner_->barrier();
    end();
  }
  [[nodiscard]] std::unique_ptr<Communicator> split(int color, int key, std::string name) override;

 private:
  void submit(Stream& stream, const Call& call, const Tensor& in, const Tensor& out) {
    EndOfCalls end(log_, log_->add(record_of(call, 0)));
    enqueue(stream, [log = log_, id = end.first()] { log->start(id); });
    issue(*inner_, stream, call, in, out);
    if (in_group_) {
      group_.join(std::move(end));
    } else {
      enqueue(stream, std::move(end));
    }
  }

  [[nodiscard]] EndOfCalls begin_host_call(std::int32_t kind) {
    EndOfCalls end(log_, log_->add(host_record(kind, 0)));
    log_->start(end.first());
    return end;
  }

  std::shared_ptr<Watchdog> watchdog_;
  std::shared_ptr<CallLog> log_;
  std::unique_ptr<Communicator> inner_;
  bool in_group_ = false;
  EndOfCalls group_;  // of the calls since group_begin
};

// Tells the members each other's rank in the job and agrees on a number for the group.
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
  // Over a group that goes away again: the calls of `group` itself are the caller's to count.
  const auto once = group.split(0, group.rank(), group.name() + ".members");
  const auto host = Device::create(DeviceType::cpu);
  const auto stream = host->make_stream(StreamKind::compute);
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
  // Nobody to wait for.
  if (inner->size() == 1) return inner;
  auto log = make_log(*inner, watchdog->rank());
  return std::make_unique<WatchedCommunicator>(std::move(inner), std::move(watchdog),
                                               std::move(log));
}

std::unique_ptr<Communicator> WatchedCommunicator::split(int color, int key, std::string name) {
  EndOfCalls end = begin_host_call(CallRecord::split);
  auto part = watch(inner_->split(color, key, std::move(name)), watchdog_);
  end();
  return part;
}

}  // namespace

std::unique_ptr<Communicator> make_watched(std::unique_ptr<Communicator> inner,
                                           const WatchOptions& options) {
  if (options.deadline_seconds <= 0 || inner->size() == 1) return inner;
  auto watchdog = Watchdog::of_process(options);
  TRIREME_EXPECTS(watchdog->size() == inner->size() && watchdog->rank() == inner->rank(),
                  "make_watched takes the world group, got rank {} of {} for rank {} of {}",
                  inner->rank(), inner->size(), watchdog->rank(), watchdog->size());
  return watch(std::move(inner), std::move(watchdog));
}

}  // namespace trireme
