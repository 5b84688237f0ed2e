// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/dry.h"

#include "runtime/comm/call.h"
#include "runtime/comm/timing/comm_stats.h"
#include "runtime/device/dry/dry_device.h"
#include "runtime/device/work_log.h"

namespace trireme {
namespace {

class DryCommunicator final : public Communicator {
 public:
  DryCommunicator(int rank, int size, std::string name,
                  std::shared_ptr<std::vector<DryGroup>> groups)
      : Communicator(rank, size, std::move(name)), groups_(std::move(groups)) {}

  [[nodiscard]] const std::vector<DryGroup>& groups() const { return *groups_; }
  [[nodiscard]] std::unique_ptr<Communicator> part(int rank, int size, std::string name) const {
    groups_->push_back({.name = name, .size = size, .parent = this->size()});
    return std::make_unique<DryCommunicator>(rank, size, std::move(name), groups_);
  }

  void barrier() override {}
  [[nodiscard]] std::unique_ptr<Communicator> split(int /*color*/, int /*key*/, std::string name,
                                                    CommRole /*role*/) override {
    return part(rank(), size(), std::move(name));
  }

 protected:
  void submit(Stream& /*stream*/, const Call& call) override {
    counters().add_call(call.verb, call.bytes());
    WorkLog* const log = WorkLog::current();
    if (log == nullptr) return;
    if (size() == 1) {  // as in SingleCommunicator
      if (call.in != nullptr && call.out != nullptr) note_copy(call.out, call.in, call.bytes());
    } else {
      const double sent = call.verb == Verb::recv ? 0 : bus_factor(call.verb, size());
      log->note(WorkKind::message,
                fmt::format("{} {} ({})", name_of(call.verb), name_of(call.dtype), name()),
                sent * static_cast<double>(call.bytes()));
    }
  }
  void submit_group_end(Stream& /*stream*/) override {}

 private:
  std::shared_ptr<std::vector<DryGroup>> groups_;  // of the job
};

const DryCommunicator& as_dry(const Communicator& group) {
  const auto* const dry = dynamic_cast<const DryCommunicator*>(&group);
  TRIREME_EXPECTS(dry != nullptr, "group {} is not dry", group.name());
  return *dry;
}

}  // namespace

std::unique_ptr<Communicator> make_dry_communicator(int rank, int size, std::string name) {
  return std::make_unique<DryCommunicator>(rank, size, std::move(name),
                                           std::make_shared<std::vector<DryGroup>>());
}

std::unique_ptr<Communicator> make_dry_part(Communicator& parent, int rank, int size,
                                            std::string name) {
  return as_dry(parent).part(rank, size, std::move(name));
}

const std::vector<DryGroup>& dry_groups(const Communicator& world) {
  return as_dry(world).groups();
}

namespace {

constexpr std::size_t usual_sends = 64;

}  // namespace

SingleCommunicator::SingleCommunicator(std::string name) : Communicator(0, 1, std::move(name)) {
  sends_.reserve(usual_sends);
  recvs_.reserve(usual_sends);
}

void SingleCommunicator::submit(Stream& stream, const Call& call) {
  counters().add_call(call.verb, call.bytes());
  if (call.verb == Verb::send) {
    sends_.push_back(call);
  } else if (call.verb == Verb::recv) {
    recvs_.push_back(call);
  } else {
    stream.device().copy(stream, call.out, call.in, call.bytes());
  }
}

void SingleCommunicator::submit_group_end(Stream& stream) {
  const std::size_t pairs = sends_.size();
  TRIREME_EXPECTS(pairs == recvs_.size(), "group {}: {} sends and {} receives of the own rank",
                  name(), pairs, recvs_.size());
  for (std::size_t i = 0; i < pairs; ++i) {
    TRIREME_EXPECTS(sends_[i].bytes() == recvs_[i].bytes(), "group {}: {} does not match {}",
                    name(), sends_[i].to_string(), recvs_[i].to_string());
    stream.device().copy(stream, recvs_[i].out, sends_[i].in, sends_[i].bytes());
  }
  sends_.clear();
  recvs_.clear();
}

std::unique_ptr<Communicator> SingleCommunicator::split(int /*color*/, int /*key*/,
                                                        std::string name, CommRole /*role*/) {
  return std::make_unique<SingleCommunicator>(std::move(name));
}

std::unique_ptr<Communicator> make_single_communicator() {
  return std::make_unique<SingleCommunicator>("world");
}

}  // namespace trireme
