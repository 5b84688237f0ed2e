// SPDX-License-Identifier: Apache-2.0
// What a program builds a run from: a resolved config and this process's place in its job become a
// model on a device, its data, its optimizer and its checkpoints. The command line is made of it.
//
//   const RankProcess process;  // mpirun, srun, RANK and WORLD_SIZE over TCP, or alone
//   const Config config = read_config(process, "configs/gpt_tiny.yaml", {"train.steps=50"});
//   Engine engine(process, config);
//   engine.begin();  // initial weights, or where run.directory has been left
//   while (engine.steps_done() < config.train.steps) {
//     const StepReport step = engine.step();
//     if (process.mpi.rank() == 0) fmt::print("{} {:.4f}\n", step.step + 1, step.loss);
//   }
//   engine.finish();
//   const EvaluationResult result = engine.evaluate();
//   engine.write_weights("weights.safetensors");
//
// Or, as the command `train`, a whole run with evaluations, checkpoints, guards and signals, whose
// steps do not wait for their reports:
//
//   struct Losses : RunObserver {
//     void read(const StepReport& step) override { losses.push_back(step.loss); }
//     std::vector<double> losses;
//   };
//   Losses losses;
//   engine.run(losses);
//
// All ranks of the job make the same calls in the same order: but for what is marked "local"
// everything is collective. Errors are Error (base/error.h), whose code() is the exit code; a
// program ends its job with print_error() and abort_job() (comm/mpi.h) where it catches one, for
// the other ranks may wait for it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/staging/staging.h"
#include "launch/engine/memory_plan.h"
#include "launch/engine/run_observer.h"
#include "launch/engine/session.h"
#include "launch/engine/state/checkpointing.h"
#include "launch/engine/state/loaded_weights.h"
#include "launch/engine/text/text_generator.h"
#include "launch/engine/training_state.h"

namespace trireme {

// Reads a config file, applies overrides ("train.steps=50") and resolves every `auto` for this job.
// Local. Raises ExitCode::config, naming file, line, key, value and what is allowed.
[[nodiscard]] Config read_config(const RankProcess& process, const std::string& file,
                                 const std::vector<std::string>& overrides = {},
                                 Purpose purpose = Purpose::train);

// What a program brings of its own; what it leaves out is as the config says.
struct EngineParts {
  // Instead of the model of model.family. Data is still read as the config's `model` section
  // describes it (context and vocabulary, or image_size, channels and classes).
  std::optional<OwnModel> model{};
  // Instead of what data.path, data.files and their like name. Samples lie as layout() says; a data
  // set without files has no shards().
  std::shared_ptr<const Dataset> training{}, validation{};
  // With Purpose::generate: how many positions of a text are remembered at most; 0: model.context.
  std::int64_t text_capacity = 0;
  // Instead of any data: micro-batches as they come, for measurements. Nothing is then restored or
  // saved, and run.directory is not looked at.
  std::function<std::unique_ptr<BatchSource>(Device&, const Config&)> batches{};
};

// What training holds, made by Engine::begin() in this order.
struct TrainingParts {
  std::optional<Sampler> sampler{};
  std::optional<TrainingState> state{};  // step engine, optimizer, averages
  std::optional<Checkpointing> checkpoints{};
  std::optional<ValidationPass> validation{};  // where there is validation data
  std::unique_ptr<BatchSource> batches{};
  std::int64_t done = 0;  // steps, those of earlier starts included
};

struct RunRequest {
  StartRequest start{};    // unless find_start() was called
  std::int64_t until = 0;  // stops after so many steps; 0: train.steps
};

class Engine {
 public:
  // Opens device, groups, this rank's part of the model and, to train, the data. `resolved`: for as
  // many ranks as the job has.
  Engine(const RankProcess& process, const Config& resolved, Purpose purpose = Purpose::train,
         EngineParts parts = {});
  // On what is there already, or of a rank that is only planned: dry_resources(), on which begin()
  // allocates what training would hold, memory() tells it, and nothing can be run. Local if dry.
  Engine(RankResources resources, const Config& resolved, Purpose purpose = Purpose::train,
         EngineParts parts = {});
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // ---- Training, with Purpose::train.

  // Where the run begins by what run.directory holds; writes nothing. begin() calls it if nobody
  // has. Raises what state/starting_point.h says.
  const StartingPoint& find_start(const StartRequest& request = {});
  // Instead of find_start(): training begins after `checkpoint`, null: at the beginning, whatever
  // else run.directory holds. Nothing is to be written there: no run() and no save() follows.
  void start_at(std::optional<FoundCheckpoint> checkpoint);
  // Lets `observer`, which must outlive the engine, look at every tensor of the steps that it
  // wants, which then wait for it; before begin(). Local.
  void observe(StepObserver& observer) { observer_ = &observer; }
  // Sets the weights (drawn from run.seed, train.initial_weights, or the checkpoint of the start)
  // and makes everything that trains.
  void begin();
  // All of a run, in place of begin(), step() and finish(): from where find_start() says to its
  // last step, with evaluations, checkpoints, guards, self tests, traces and stops as the config
  // says. Takes run.directory before its first step. A program whose runs should heed SIGTERM,
  // SIGINT and SIGUSR1 makes SignalRequests (train/signal_requests.h) before RankProcess. Returns
  // why it stopped before its last step, with a checkpoint; none: it has reached it, now or
  // earlier.
  StopReason run(RunObserver& observer, const RunRequest& request = {});

  // Raises ExitCode::config, on rank 0, where run.directory is no longer this job's. Local.
  void require_run() const;

  // Runs the next step of the config's global batch and waits for it.
  StepReport step();
  // Those of earlier starts of the run included. Local.
  [[nodiscard]] std::int64_t steps_done() const { return training_.done; }
  // Raises what has gone wrong beside the steps: data that changed (ExitCode::data), saves that
  // failed. step() calls it. Local.
  void check();
  // Starts a checkpoint below run.directory; it is written while training goes on.
  void save();
  // Makes parameters whole and waits for what is being written, after a last checkpoint where the
  // config asks for checkpoints. Raises where that could not be written.
  void finish();
  // Raises ExitCode::data where the data is not what it was when training began.
  void verify_data();

  // ---- Any weights.

  // The weights of a run's newest state, or of what `choice` names, in safetensors or a checkpoint
  // of any layout.
  LoadedWeights load_weights(const std::string& run, const WeightsChoice& choice = {});
  // The current weights, whole, as a safetensors file written by rank 0. A relative path is
  // relative to the current directory.
  void write_weights(const std::string& path);
  // Loss and accuracy of the current weights on the validation data.
  [[nodiscard]] EvaluationResult evaluate();
  [[nodiscard]] ValidationPass& validation();
  // Continues train.micro_batch texts, with Purpose::generate. Must not outlive the engine.
  // Collective over the ranks of one copy of the model (text_generator.h).
  [[nodiscard]] TextGenerator generator(const SamplingOptions& sampling = {},
                                        std::int64_t forget = TextGenerator::half_the_context);
  // What this rank's buffers hold, by what for. Local.
  [[nodiscard]] HeldMemory memory() const { return held_memory(*session_.device); }

  // ---- What it is made of, for what the calls above do not offer.

  [[nodiscard]] Session& session() { return session_; }
  [[nodiscard]] const Session& session() const { return session_; }
  // Null where `parts.batches` stands for it, or nothing is trained.
  [[nodiscard]] const Dataset* dataset() const { return parts_.training.get(); }
  [[nodiscard]] TrainingParts& training() { return training_; }

 private:
  void open_training_data();
  // Those that there are: to train on, to evaluate on.
  [[nodiscard]] std::vector<const Dataset*> data_sets() const;
  void begin_dry(const StepOptions& options);
  [[nodiscard]] bool is_finished(RunObserver& observer, std::int64_t until) const;
  [[nodiscard]] TrainingStart run_start() const;
  // Takes run.directory for this job; from here on it is written to.
  RunSinks open_run(RunObserver& observer, const TrainingStart& start);
  // Parameters are whole, checkpoints written. `finished`: with a last one.
  void end_steps(bool finished);
  void require_saved();
  void set_initial_weights();
  [[nodiscard]] bool reads_data() const { return !session_.dry && !parts_.batches; }

  EngineParts parts_;
  Session session_;
  std::optional<RunOwner> owner_;
  std::optional<StartingPoint> start_;
  std::shared_ptr<void> dry_memory_;      // of data and checkpoints, where nothing runs
  std::optional<PipelineRunner> runner_;  // of passes outside training
  TrainingParts training_;
  std::optional<PayloadWatch> watch_;
  std::unique_ptr<Staging> staging_;
  StepObserver* observer_ = nullptr;
  int local_rank_ = -1;                   // -1: not known
  std::optional<StepRequests> requests_;  // of run()
  bool open_ = false;
};

}  // namespace trireme
