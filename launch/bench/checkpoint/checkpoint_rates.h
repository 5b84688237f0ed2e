// SPDX-License-Identifier: Apache-2.0
// Speed of saving, verifying and restoring a state, compared with plain writes and reads of equally
// many bytes on the same disk by the same number of ranks.
#pragma once

#include <string>
#include <vector>

#include "runtime/checkpoint/save/saver.h"

namespace trireme {

// A rank's part of a state to save. All references must outlive this.
struct SavedState {
  Device& device;
  Stream& stream;
  const ProcessMesh& mesh;
  std::vector<PlacedParam> placed;
  CheckpointValues values;
};

// Seconds of each round, from the first rank's start to the last rank's end. Cold: with the files
// evicted from the page cache; empty if that is impossible. Warm: after everything was read.
struct CheckpointRates {
  std::uint64_t bytes = 0;  // of the values, all ranks
  std::vector<double> plain_write, save;
  std::vector<double> plain_read_cold, verify_cold, restore_cold, resume_cold;
  std::vector<double> plain_read_warm, verify_warm, restore_warm;
  std::vector<double> warm_share;  // share of the files' pages in this host's page cache when warm
  std::vector<double> copy;        // to host memory, on this rank
};

// Collective. Rounds alternate, so other load affects all of them. Saves steps from 1 on with
// `saver`, whose directory is below `directory`; resume: verifies, then restores what that left in
// the page cache. Raises ExitCode::checkpoint if a save fails.
[[nodiscard]] CheckpointRates measure_checkpoints(const SavedState& state, CheckpointSaver& saver,
                                                  const std::string& directory, int rounds);

}  // namespace trireme
