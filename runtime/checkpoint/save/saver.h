// SPDX-License-Identifier: Apache-2.0
// Saves a run's state during training: copies it into page-locked memory on the training stream;
// then one background thread per rank writes, agrees with the other ranks and commits. FORMAT.md
// describes the files.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/checkpoint/memory/memory_store.h"
#include "runtime/checkpoint/slices.h"

namespace trireme {

struct SaverOptions {
  std::string directory;                // of checkpoints: <run>/checkpoints
  std::int64_t keep = 2;                // number of newest usable ones to keep; at least 1
  std::int64_t keep_every = 0;          // always keep multiples of this step; 0: none
  bool async = true;                    // false: save() returns after the commit
  std::int64_t epoch = 0;               // number of this start of the run, if counted
  std::optional<MemoryPlace> memory{};  // if hosts keep copies in memory
  // Called on rank 0 by the writing thread right before a commit; an Error that it raises becomes
  // the save's problem. May be empty.
  std::function<void()> may_commit{};
};

enum class SaveTo : std::uint8_t { disk, memory };

struct SaveReport {
  std::int64_t step = 0;
  bool in_memory = false;
  std::string path;         // of the checkpoint
  std::string problem;      // why there is none, with rank, path and errno; "" if committed
  std::uint64_t bytes = 0;  // written by this rank
  double stall_ms = 0;      // save() blocked the host: an earlier write, and enqueueing
  double copy_ms = 0;       // copying the values to host memory
  double write_ms = 0;      // this rank's file, fsync included
  double commit_ms = 0;     // the other ranks' files, manifest, rename
  [[nodiscard]] bool committed() const { return problem.empty(); }
  static constexpr std::string_view non_finite_ending = "holds NaN or infinity";
  // Whether the problem is the state itself.
  [[nodiscard]] bool non_finite() const { return problem.ends_with(non_finite_ending); }
};

class CheckpointSaver {
 public:
  // Collective; allocates and writes nothing. `placed`: every parameter of the chain (gather.h).
  // Device, mesh and the values' memory must outlive it.
  CheckpointSaver(Device& device, const ProcessMesh& mesh, std::span<const PlacedParam> placed,
                  CheckpointValues values, SaverOptions options);
  // Waits for a running write, except during unwinding, because peers may be gone.
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  // Later saves leave this step's checkpoint; 0: none but those of the options.
  void keep_best(std::int64_t step);
  // Before the first save, if it was not known earlier.
  void set_epoch(std::int64_t epoch);
  // Collective. The first save calls it if needed. Rank 0 creates the directory and removes
  // leftovers of killed processes.
  void prepare();
  // Collective. Enqueues the snapshot on `stream`, which must be ordered after the update of step
  // `step`; `state` is a JSON object. Waits for an earlier save (on every rank; a refusal would
  // depend on each rank's clock). Does not rewrite the step that was committed last or that
  // note_restored() named. Raises errors of peers and the network; disk errors are in the report.
  // With SaveTo::memory, for SaverOptions::memory, only the newest step is kept
  // (memory/memory_store.h).
  void save(Stream& stream, std::int64_t step, std::string state, SaveTo to = SaveTo::disk);
  // True while a save is being written. May differ between ranks.
  [[nodiscard]] bool busy() const;
  // Blocks until all writes have ended. Effectively collective.
  void finish();
  // After finish(): frees the copies in memory.
  void forget_memory() noexcept;

  // The last ended save, once. `committed()`, `problem` and `step` are equal on all ranks.
  [[nodiscard]] std::optional<SaveReport> take_report();
  [[nodiscard]] std::int64_t failures() const;
  // The run continues from this step's checkpoint, which is therefore usable; later ones were
  // skipped and do not count for `keep`. Call it before the first save.
  void note_restored(std::int64_t step);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme
