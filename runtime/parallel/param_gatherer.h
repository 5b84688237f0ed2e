// SPDX-License-Identifier: Apache-2.0
// Gathers ZeRO's sliced parameters. Stages 1 and 2: after each update all buckets are gathered, in
// the order in which the next forward reads them, overlapping that forward. Stage 3: a layer's
// parameters are gathered before each use, one layer ahead, into one of a few shared buffers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/comm/timing/stall_clock.h"
#include "runtime/nn/param_store.h"

namespace trireme {

class ParamGatherer {
 public:
  // All must outlive this. `comm` is the stream of the group's collectives; `stalls` times waits
  // for them, null: not timed. `experts`: the group of experts' parameters, null: the same.
  ParamGatherer(Device& device, Communicator& group, ParamStore& params, Stream& compute,
                Stream& comm, StallClock* stalls = nullptr, Communicator* experts = nullptr);

  // Call it after the optimizer has updated this rank's slices.
  void after_update();
  // Makes the parameters of `unit` readable on the compute stream; `next` (-1: none) will follow.
  void before_use(int unit, int next);
  // Stages 1 and 2: makes all parameters whole.
  void finish();
  // Discards what was enqueued since all parameters were whole, because it did not run.
  void forget();

 private:
  void gather(std::size_t bucket);
  void complete(std::size_t bucket);
  [[nodiscard]] std::size_t buffer_of(int unit) const;
  void fetch(int unit);

  Communicator &group_, &experts_;
  ParamStore& params_;
  Stream& compute_;
  Stream& comm_;
  StallClock* stalls_;
  std::vector<std::string> labels_;  // by bucket
  std::unique_ptr<Event> updated_;
  std::vector<std::unique_ptr<Event>> gathered_;  // by bucket, or in stage 3 by buffer
  std::vector<bool> pending_;                     // likewise: not yet waited for
  std::vector<int> unit_in_;                      // stage 3: by buffer; -1 = none
  std::vector<std::int64_t> used_;                // likewise: time of last use
  std::int64_t clock_ = 0;
};

}  // namespace trireme
