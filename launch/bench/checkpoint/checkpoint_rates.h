// SPDX-License-Identifier: Apache-2.0
// How fast a state is saved, verified and restored, beside plain writes and reads of as many bytes
// on the same disk by as many ranks.
#pragma once

#include <string>
#include <vector>

#include "runtime/checkpoint/save/saver.h"

namespace trireme {

// A rank's part of a state that can be saved. References must outlive whoever holds this.
struct SavedState {
  Device& device;
  Stream& stream;
  const ProcessMesh& mesh;
  std::vector<PlacedParam> placed;
  CheckpointValues values;
};

// Seconds of each round, from when the first rank began until the last had ended. Cold: the page
// cache held nothing of the files; empty where it cannot be emptied. Warm: everything was read just
// before.
struct CheckpointRates {
  std::uint64_t bytes = 0;  // of the values, all ranks
  std::vector<double> plain_write, save;
  std::vector<double> plain_read_cold, verify_cold, restore_cold, resume_cold;
  std::vector<double> plain_read_warm, verify_warm, restore_warm;
  std::vector<double> warm_share;  // of the files' pages in this host's page cache when warm
  std::vector<double> copy;        // to host memory, this rank
};

// Collective. The rounds alternate, so that other load on the machine hits all sides. Steps from
// 1 on are saved with `saver`, whose directory is below `directory`; resume: verify, then restore
// what that left in the page cache. Raises ExitCode::checkpoint where a save fails.
[[nodiscard]] CheckpointRates measure_checkpoints(const SavedState& state, CheckpointSaver& saver,
                                                  const std::string& directory, int rounds);

}  // namespace trireme
