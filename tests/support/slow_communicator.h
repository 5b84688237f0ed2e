// SPDX-License-Identifier: Apache-2.0
// A group on a slow network: its stream pauses before every call, so a missing wait before reading
// gives old values, and a missing wait before writing corrupts the call.
#pragma once

#include <chrono>
#include <thread>

#include "runtime/comm/communicator.h"
#include "runtime/device/cpu/cpu_stream.h"

namespace trireme::test {

class SlowCommunicator final : public Communicator {
 public:
  // `inner` must outlive this.
  explicit SlowCommunicator(Communicator& inner)
      : Communicator(inner.rank(), inner.size(), inner.name(), counters_of(inner)), inner_(inner) {}

  void barrier() override { inner_.barrier(); }
  [[nodiscard]] std::unique_ptr<Communicator> split(int color, int key, std::string name,
                                                    CommRole role) override {
    return inner_.split(color, key, std::move(name), role);
  }

 protected:
  void submit(Stream& stream, const Call& call) override {
    if (starts_group()) inner_.group_begin();
    slow(stream).issue(stream, call);
  }
  void submit_group_end(Stream& stream) override { slow(stream).group_end(stream); }

 private:
  Communicator& slow(Stream& stream) {
    enqueue(stream, [] { std::this_thread::sleep_for(std::chrono::microseconds(200)); });
    return inner_;
  }

  Communicator& inner_;
};

}  // namespace trireme::test
