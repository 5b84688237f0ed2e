// SPDX-License-Identifier: Apache-2.0
// Your own training loop: the engine does the steps, this program acts between them. Here the run
// stops once the validation loss has not improved for a while (early stopping), and keeps a
// checkpoint of each best.
//
//   mpirun -np 2 train_gpt gpt.yaml data.path=data/book/train
//   data.validation_path=data/book/validation train.steps=500
//
// The layout, the schedule, ZeRO, checkpoints and everything else of the config work as under
// `trireme train`.
#include <fmt/format.h>

#include <limits>

#include "data/hdf5/child.h"
#include "launch/engine/engine.h"
#include "runtime/base/error.h"
#include "runtime/comm/mpi.h"

namespace {

constexpr std::int64_t steps_between_evaluations = 10;
constexpr int patience = 3;  // evaluations without improvement

void train(const std::string& file, const std::vector<std::string>& overrides) {
  const trireme::RankProcess process;  // mpirun, srun, RANK and WORLD_SIZE over TCP, or alone
  const bool speaks = process.mpi.rank() == 0;
  const trireme::Config config = trireme::read_config(process, file, overrides);
  trireme::Engine engine(process, config);
  engine.begin();  // at the newest checkpoint in run.directory, if there is one

  double best = std::numeric_limits<double>::infinity();
  int without_progress = 0;
  while (engine.steps_done() < config.train.steps && without_progress < patience) {
    const trireme::StepReport step = engine.step();
    if (speaks)
      fmt::print("step {} loss {} norm {:.3f}\n", step.step + 1, step.loss, step.grad_norm);
    if (engine.steps_done() % steps_between_evaluations != 0) continue;
    // All ranks get the same result, so they decide alike.
    const double loss = engine.evaluate().loss;
    if (speaks) fmt::print("validation {}\n", loss);
    without_progress = loss < best ? 0 : without_progress + 1;
    if (loss < best) {
      best = loss;
      engine.save();
    }
  }
  engine.finish();
  engine.write_weights("weights.safetensors");
}

}  // namespace

int main(int argc, char** argv) {
  trireme::serve_hdf5_child(argc, argv);  // first
  try {
    if (argc < 2)
      trireme::fail(trireme::ExitCode::config, "usage: {} CONFIG [KEY=VALUE]...", argv[0]);
    train(argv[1], {argv + 2, argv + argc});
  } catch (const trireme::Error& error) {  // other ranks may be waiting for this one
    trireme::print_error(error.what());
    trireme::abort_job(static_cast<int>(error.code()));
  }
}
