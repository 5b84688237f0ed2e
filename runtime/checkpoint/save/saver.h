// SPDX-License-Identifier: Apache-2.0
// Saves a run's state beside training: a copy into page-locked memory on the training stream, then
// one background thread per rank writes, agrees with the others' and commits. The files are in
// FORMAT.md.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "runtime/checkpoint/memory/memory_store.h"
#include "runtime/checkpoint/slices.h"

namespace trireme {

struct SaverOptions {
  std::string directory;                // of the checkpoints: <run>/checkpoints
  std::int64_t keep = 2;                // newest usable ones that stay; at least 1
  std::int64_t keep_every = 0;          // steps whose multiples stay for ever; 0: none
  bool async = true;                    // false: save() returns when it is committed
  std::int64_t epoch = 0;               // which start of the run this is, where it counts them
  std::optional<MemoryPlace> memory{};  // where hosts keep copies in their memory
  // Called on rank 0 by the writing thread right before a commit; an Error that it raises is the
  // save's problem. May be empty.
  std::function<void()> may_commit{};
};

enum class SaveTo : std::uint8_t { disk, memory };

struct SaveReport {
  std::int64_t step = 0;
  bool in_memory = false;
  std::string path;         // of the checkpoint
  std::string problem;      // why there is none, with rank, path and errno; "" when it is committed
  std::uint64_t bytes = 0;  // that this rank wrote
  double stall_ms = 0;      // the host was held in save(): an earlier write, and enqueueing
  double copy_ms = 0;       // copying the values to host memory took
  double write_ms = 0;      // own file, fsync included
  double commit_ms = 0;     // the other ranks' files, manifest, rename
  [[nodiscard]] bool committed() const { return problem.empty(); }
};

class CheckpointSaver {
 public:
  // Collective; allocates and writes nothing. `placed`: every parameter of the chain (gather.h).
  // Device, mesh and the values' memory must outlive it.
  CheckpointSaver(Device& device, const ProcessMesh& mesh, std::span<const PlacedParam> placed,
                  CheckpointValues values, SaverOptions options);
  // Waits for a running write; while the stack unwinds it does not, for peers may be gone.
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  // Before the first save, where it was not known yet.
  void set_epoch(std::int64_t epoch);
  // Collective, before the first save, which does it where nobody has. Rank 0 makes the directory
  // and clears what a killed process left in it.
  void prepare();
  // Collective. Enqueues the snapshot on `stream`, which must be ordered behind the update of step
  // `step`; `state` is a JSON object. An earlier save that is still being written is waited for
  // (which every rank does alike; a refusal would depend on each rank's clock). The step that
  // this saver committed last, or that note_restored() named, is not written again. Raises the
  // error of a peer or a network that failed; a disk that failed is in the report. Into memory the
  // same, of the newest step alone (memory/memory_store.h), for SaverOptions::memory.
  void save(Stream& stream, std::int64_t step, std::string state, SaveTo to = SaveTo::disk);
  // True while a save is being written. Differs between ranks at any moment.
  [[nodiscard]] bool busy() const;
  // Blocks until nothing is being written. Collective in effect.
  void finish();
  // After finish(): the run needs its copies in memory no longer.
  void forget_memory() noexcept;

  // Of the save that ended last, once. `committed()`, `problem`, `step` agree on all ranks.
  [[nodiscard]] std::optional<SaveReport> take_report();
  [[nodiscard]] std::int64_t failures() const;
  // The run goes on from this step's checkpoint, which is therefore good, while those beyond it
  // were passed over and do not count for `keep`. Before the first save.
  void note_restored(std::int64_t step);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme
