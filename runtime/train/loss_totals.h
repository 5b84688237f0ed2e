// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "runtime/comm/communicator.h"
#include "runtime/nn/layer.h"

namespace trireme {

// Sums of losses and hits over micro-batches and ranks, read back later without stopping the
// streams.
class LossTotals {
 public:
  struct Values {
    double loss = 0;  // nats, summed over targets
    double hits = 0;
  };

  explicit LossTotals(Device& device);

  void reset(Stream& compute);
  // Adds what the head of this micro-batch wrote into the context.
  void add(const Context& context);
  // After the last add: sums over `group` on the comm stream and starts the copy to the host.
  void publish(Communicator& group, Stream& compute, Stream& comm);
  // Blocks until published values are on the host.
  [[nodiscard]] Values read();

 private:
  Device& device_;
  Buffer sums_, host_;  // (2) f64
  std::unique_ptr<Event> added_, copied_;
};

}  // namespace trireme
