// SPDX-License-Identifier: Apache-2.0
// The memory of data and checkpoints that a planned rank holds besides its training state.
#include "launch/engine/data_sets.h"
#include "launch/engine/engine.h"
#include "launch/engine/options.h"
#include "runtime/checkpoint/save/snapshot.h"

namespace trireme {
namespace {

// In a run's order, without data and files.
struct DryMemory {
  DryMemory(const Session& session, const TrainingState& state) {
    Device& device = *session.device;
    const Config& config = session.config;
    if (writes_checkpoints(config.checkpoint)) {
      const auto placed = session.placed_params();
      const auto values = state.checkpoint_values();
      snapshot.emplace(device, session.mesh, values,
                       manifest_tensors(placed, values.params.layout().splits()));
    }
    const SampleLayout samples =
        sample_layout(config, session.traits(), session.mesh.here().tensor);
    const std::int64_t rows = config.train.micro_batch;
    if (config.data.has_validation())
      loaders.emplace_back(device, samples, rows, loader_options(config.data));
    loaders.emplace_back(device, samples, rows, training_loader_options(session));
    const bool recorded = config.device.graphs == GraphMode::step && session.pipeline.stages == 1;
    if (!recorded && !session.model->token_losses()) return;
    // Batches stay in place (train/step/step_batches.h).
    const MemoryScope scope(MemoryRole::staging);
    for (int i = 0; i < session.pipeline.micro_batches; ++i)
      static_batches.emplace_back(device, samples, rows, MemoryKind::device);
  }

  std::optional<Snapshot> snapshot;
  std::vector<LoaderMemory> loaders;
  std::vector<BatchMemory> static_batches;
};

}  // namespace

void Engine::begin_dry(const StepOptions& options) {
  training_.state.emplace(session_, options);
  const auto memory = std::make_shared<DryMemory>(session_, *training_.state);
  if (session_.config.checkpoint.in_memory_every_steps > 0)
    memory_checkpoint_ = memory->snapshot->bytes();
  dry_memory_ = memory;
}

}  // namespace trireme
