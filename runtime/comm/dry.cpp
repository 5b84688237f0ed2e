// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/dry.h"

#include "runtime/comm/call.h"
#include "runtime/comm/timing/bus_factor.h"
#include "runtime/device/dry/dry_device.h"
#include "runtime/device/work_log.h"

namespace trireme {
namespace {

class DryCommunicator final : public Communicator {
 public:
  DryCommunicator(int rank, int size, std::string name)
      : Communicator(rank, size, std::move(name)) {}

  void barrier() override {}
  [[nodiscard]] std::unique_ptr<Communicator> split(int /*color*/, int /*key*/,
                                                    std::string name) override {
    return make_dry_communicator(rank(), size(), std::move(name));
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
};

}  // namespace

std::unique_ptr<Communicator> make_dry_communicator(int rank, int size, std::string name) {
  return std::make_unique<DryCommunicator>(rank, size, std::move(name));
}

}  // namespace trireme
