// SPDX-License-Identifier: Apache-2.0
// The entry point for programs: a resolved config and this process's rank become a model on a
// device, with data, optimizer and checkpoints. The command line uses it too.
//
//   const RankProcess process;  // mpirun, srun, RANK and WORLD_SIZE over TCP, or alone
//   const Config config = read_config(process, "configs/gpt_tiny.yaml", {"train.steps=50"});
//   Engine engine(process, config);
//   engine.begin();  // initial weights, or the newest state in run.directory
//   while (engine.steps_done() < config.train.steps) {
//     const StepReport step = engine.step();
//     if (process.mpi.rank() == 0) fmt::print("{} {:.4f}\n", step.step + 1, step.loss);
//   }
//   engine.finish();
//   const EvaluationResult result = engine.evaluate();
//   engine.write_weights("weights.safetensors");
//
// Or, like the command `train`, a whole run with evaluations, checkpoints, guards and signals,
// whose steps do not wait for their reports:
//
//   struct Losses : RunObserver {
//     void read(const StepReport& step) override { losses.push_back(step.loss); }
//     std::vector<double> losses;
//   };
//   Losses losses;
//   engine.run(losses);
//
// All ranks of the job make the same calls in the same order: everything that is not marked "local"
// is collective. Errors are Error (base/error.h), whose code() is the exit code. Other ranks may be
// waiting, so a program that catches one ends its job with print_error() and abort_job()
// (comm/mpi.h).
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/staging/staging.h"
#include "launch/engine/memory_fit.h"
#include "launch/engine/rank_meter.h"
#include "launch/engine/run_observer.h"
#include "launch/engine/session.h"
#include "launch/engine/state/checkpointing.h"
#include "launch/engine/state/loaded_weights.h"
#include "launch/engine/text/text_generator.h"
#include "launch/engine/training_state.h"

namespace trireme {

// Reads a config file, applies overrides ("train.steps=50") and resolves every `auto` for this job.
// Local. Raises ExitCode::config, naming file, line, key, value and allowed values.
[[nodiscard]] Config read_config(const RankProcess& process, const std::string& file,
                                 const std::vector<std::string>& overrides = {},
                                 Purpose purpose = Purpose::train);

// Parts that a program supplies; the config defines the rest.
struct EngineParts {
  // Replaces the model of model.family. Data is still read as the config's `model` section
  // describes it (context and vocabulary, or image_size, channels and classes).
  std::optional<OwnModel> model{};
  // Replace the data sets that data.path, data.files and so on name. Samples have the layout of
  // layout(); a data set without files has no shards().
  std::shared_ptr<const Dataset> training{}, validation{};
  // For Purpose::generate: the most positions of a text that are cached; 0: model.context.
  std::int64_t text_capacity = 0;
  // Replaces all data by generated micro-batches, for measurements. Nothing is restored or saved,
  // and run.directory is ignored.
  std::function<std::unique_ptr<BatchSource>(Device&, const Config&)> batches{};
  // What happens to the gradients of each step, in this order, before their norm is taken and
  // clipped (runtime/optim/gradient_transform.h). Their memory must end with them: the engine
  // releases them before its device.
  std::vector<std::shared_ptr<GradientTransform>> transforms{};
};

// The parts of training; Engine::begin() makes them in this order.
struct TrainingParts {
  std::optional<Sampler> sampler{};
  std::optional<TrainingState> state{};  // step engine, optimizer, averages
  std::optional<Checkpointing> checkpoints{};
  std::optional<ValidationPass> validation{};  // if there is validation data
  std::unique_ptr<BatchSource> batches{};
  std::int64_t done = 0;                   // steps, including earlier starts
  std::optional<ReachedTarget> reached{};  // by the last evaluation of run(), which ends there
};

struct RunRequest {
  StartRequest start{};    // unless find_start() was called
  std::int64_t until = 0;  // stops after this step; 0: train.steps
};

class Engine {
 public:
  // Opens the device, the groups, this rank's part of the model and, for training, the data.
  // `resolved` must be for this number of ranks.
  Engine(const RankProcess& process, const Config& resolved, Purpose purpose = Purpose::train,
         EngineParts parts = {});
  // On existing resources, or on dry_resources() for a rank that is only planned: then begin()
  // allocates a training run's memory, memory() returns it, and nothing can run. Local if dry.
  Engine(RankResources resources, const Config& resolved, Purpose purpose = Purpose::train,
         EngineParts parts = {});
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // ---- Training, with Purpose::train.

  // Chooses the start point from the contents of run.directory; read-only. begin() calls it if
  // needed. Raises the errors of state/starting_point.h.
  const StartingPoint& find_start(const StartRequest& request = {});
  // Replaces find_start(): starts after `checkpoint`, or from step 0 if it is null, whatever else
  // run.directory holds. Nothing may be written there: call neither run() nor save().
  void start_at(std::optional<FoundCheckpoint> checkpoint);
  // Shows `observer` the tensors that it wants; a step waits for it. The observer must outlive the
  // engine. Call it before begin(). Local.
  void observe(StepObserver& observer) { observer_ = &observer; }
  // Sets the weights (drawn from run.seed, train.initial_weights, or the start's checkpoint) and
  // makes everything that trains.
  void begin();
  // A whole run, in place of begin(), step() and finish(): from the start point to the last step,
  // with evaluations, checkpoints, guards, self tests, traces and stops as configured. Takes
  // run.directory before its first step. To handle SIGTERM, SIGINT and SIGUSR1, a program makes
  // SignalRequests (train/signal_requests.h) before RankProcess. Returns why it stopped early, with
  // a checkpoint; none: the last step is done, now or earlier.
  StopReason run(RunObserver& observer, const RunRequest& request = {});

  // Raises ExitCode::config, on rank 0, if run.directory no longer belongs to this job. Local.
  void require_run() const;

  // Runs the next step of the config's global batch and waits for it.
  StepReport step();
  // Including earlier starts of the run. Local.
  [[nodiscard]] std::int64_t steps_done() const { return training_.done; }
  // Raises errors of background work: changed data (ExitCode::data), failed saves. step() calls it.
  // Local.
  void check();
  // Starts to write a checkpoint to run.directory; training continues meanwhile.
  void save();
  // Makes parameters whole, writes a last checkpoint if the config has checkpoints, and waits for
  // all writes. Raises if a write failed.
  void finish();
  // Raises ExitCode::data if the data has changed since training began.
  void verify_data();

  // ---- Weights.

  // Loads a run's newest state, or the one in `choice`, from safetensors or a checkpoint of any
  // layout.
  LoadedWeights load_weights(const std::string& run, const WeightsChoice& choice = {});
  // Rank 0 writes the current weights, whole, as a safetensors file. A relative path starts at the
  // current directory.
  void write_weights(const std::string& path);
  // Loss and accuracy of the current weights on the validation data.
  [[nodiscard]] EvaluationResult evaluate();
  [[nodiscard]] ValidationPass& validation();
  // Continues train.micro_batch texts, for Purpose::generate. Must not outlive the engine.
  // Collective over the ranks of one model replica (text_generator.h).
  [[nodiscard]] TextGenerator generator(const SamplingOptions& sampling = {},
                                        std::int64_t forget = TextGenerator::half_the_context);
  // The memory of this rank's buffers, by role. Local.
  [[nodiscard]] HeldMemory memory() const {
    HeldMemory held = held_memory(*session_.device);
    held.memory_checkpoint = memory_checkpoint_;
    return held;
  }

  // ---- Parts, for other purposes.

  [[nodiscard]] Session& session() { return session_; }
  [[nodiscard]] const Session& session() const { return session_; }
  // Null if `parts.batches` replaces it, or nothing is trained.
  [[nodiscard]] const Dataset* dataset() const { return parts_.training.get(); }
  [[nodiscard]] TrainingParts& training() { return training_; }

 private:
  void open_training_data();
  // In owner.json, for reports.
  void note_end();
  // The existing ones: for training, for evaluation.
  [[nodiscard]] std::vector<const Dataset*> data_sets() const;
  void begin_dry(const StepOptions& options);
  [[nodiscard]] bool is_finished(RunObserver& observer, std::int64_t until) const;
  [[nodiscard]] TrainingStart run_start() const;
  // Takes run.directory for this job; from here on the engine writes to it.
  RunSinks open_run(RunObserver& observer, const TrainingStart& start);
  // Makes parameters whole and waits for checkpoints; if `finished`, also writes the last one.
  void end_steps(bool finished);
  void require_saved();
  void set_initial_weights();
  [[nodiscard]] bool reads_data() const { return !session_.dry && !parts_.batches; }

  EngineParts parts_;
  std::optional<MemoryNeed> need_;  // of training that runs; planned before session_ allocates
  Session session_;
  std::vector<std::shared_ptr<GradientTransform>> transforms_;  // may hold memory of the device
  std::optional<RunOwner> owner_;
  std::optional<StartingPoint> start_;
  std::shared_ptr<void> dry_memory_;      // of data and checkpoints, if nothing runs
  std::uint64_t memory_checkpoint_ = 0;   // bytes, if nothing runs
  std::optional<PipelineRunner> runner_;  // for passes outside training
  std::optional<RankMeter> rank_meter_;   // of training_
  TrainingParts training_;
  std::optional<PayloadWatch> watch_;
  std::unique_ptr<Staging> staging_;
  StepObserver* observer_ = nullptr;
  int local_rank_ = -1;                   // -1: unknown
  std::optional<StepRequests> requests_;  // for run()
  bool open_ = false;
  std::chrono::system_clock::time_point data_opened_{};
};

}  // namespace trireme
