// SPDX-License-Identifier: Apache-2.0
// From a snapshot to a committed checkpoint: what the background thread of a rank does. Private to
// this room.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "runtime/checkpoint/agree.h"
#include "runtime/checkpoint/save/saver.h"
#include "runtime/checkpoint/save/snapshot.h"

namespace trireme {

struct SaveContext {
  Communicator& group;  // for this thread alone
  const SaverOptions& options;
  const Snapshot& snapshot;
  const Manifest& manifest;                // the parts that every save shares
  const std::set<std::int64_t>& unusable;  // steps whose directories hold no good checkpoint
};

// Collective. Writes this rank's file, waits for the others' and commits; fills `report` but for
// stall_ms. Never raises for a file that could not be written: that is what the report says.
void run_save(const SaveContext& context, std::int64_t step, const std::string& state,
              SaveReport& report);

}  // namespace trireme
