// SPDX-License-Identifier: Apache-2.0
// Speed of saving, verifying and restoring a state, compared with plain writes and reads of equally
// many bytes on the same disk by the same number of ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "launch/engine/session.h"
#include "runtime/checkpoint/save/saver.h"
#include "runtime/train/step/step_engine.h"

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

// Plain disk I/O, the reference of `trireme bench checkpoint`.

// Writes `bytes` from one warm buffer of 1 MiB through the page cache, then fsync, like
// `dd if=/dev/zero bs=1M conv=fsync`. Raises ExitCode::checkpoint.
void write_plainly(const std::string& path, std::uint64_t bytes);

// Reads the whole file in calls of 1 MiB to memory that holds all of it. The constructor allocates
// and touches the memory, so that read() only reads.
class PlainReader {
 public:
  explicit PlainReader(std::uint64_t bytes) : memory_(bytes) {}
  void read(const std::string& path);

 private:
  std::vector<std::byte> memory_;
};

// Evicts the files in `directory` and below from this host's page cache; they must be clean
// (fsync). False if one stays: a memory file system, or another process maps it.
bool drop_page_cache(const std::string& directory);

// Share of the pages of the files in `directory` and below that this host's page cache holds.
[[nodiscard]] double cached_share(const std::string& directory);

// Measures how much asynchronous saves slow down training steps.

// Milliseconds, one value per round, except for the counts.
struct StepStall {
  int steps = 0;               // per round and side: at least until a save is written
  std::vector<double> plain;   // a step without a save
  std::vector<double> longer;  // extra time of a round with one save over a round without
  std::vector<double> copy;    // to host memory, on the training stream
  std::vector<double> held;    // the host blocked in save()
};

// Trains on `source`, alternating rounds with and without a save; `save_seconds`: estimate of a
// save. Collective.
[[nodiscard]] StepStall measure_stall(Session& session, StepEngine& engine, BatchSource& source,
                                      CheckpointSaver& saver, double save_seconds, int rounds);

// As text. Differences below the variation of steps are called noise.
[[nodiscard]] std::string stall_text(const StepStall& stall);

}  // namespace trireme
