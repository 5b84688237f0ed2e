// SPDX-License-Identifier: Apache-2.0
// Common to all uses of a model: the process of a rank, its device, its groups and its part of the
// model.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/loader/loader.h"
#include "data/payload_watch.h"
#include "data/sets/dataset.h"
#include "launch/engine/stitcher.h"
#include "models/registry.h"
#include "runtime/checkpoint/gather.h"
#include "runtime/comm/mpi.h"
#include "runtime/comm/process_mesh.h"
#include "runtime/config/config.h"
#include "runtime/parallel/stage_plan.h"
#include "runtime/train/evaluation.h"
#include "runtime/train/step/streams.h"

namespace trireme {

class Optimizer;

// MPI, logging and the label of error messages. Make one per process, before any call of CUDA or
// NCCL, whose environment it sets (device/gpu_facts.h).
struct RankProcess {
  RankProcess();
  [[nodiscard]] Environment environment() const;
  MpiEnvironment mpi;
};

[[nodiscard]] DeviceType device_type(const Config& config);
// This rank's place among the ranks of its host that see the same GPUs: a launcher may show each
// rank one GPU. Collective; blocks the host.
[[nodiscard]] DevicePlace device_place(Communicator& world, DeviceType type, bool share);
[[nodiscard]] MeshShape mesh_shape(const ParallelConfig& parallel);

// A model that replaces the one of the config's `model` section.
struct OwnModel {
  Chain chain;
  ModelTraits traits;  // of the batches
};

// FLOPs of each layer's forward with one sample, on whatever layout. Raises ExitCode::config if
// `traits` lack the sizes of samples.
[[nodiscard]] std::vector<double> flops_of_layers(const OwnModel& model, const Config& config);

struct RankResources {
  std::shared_ptr<Device> device;  // shared if a program uses it for several engines
  std::unique_ptr<Communicator> world;
  std::shared_ptr<void> watchdog;  // if one rank trains alone
  ProcessMesh mesh;
  bool dry = false;  // nothing runs; memory is only counted
};

// For this process. Collective.
[[nodiscard]] RankResources open_resources(const RankProcess& process, const Config& config,
                                           bool training);
// For one rank alone, whatever the job. Local.
[[nodiscard]] RankResources single_resources(std::shared_ptr<Device> device);
// For rank `rank` of a job that is only planned: nothing runs and no memory is touched, but all of
// it is counted (device/dry/dry_device.h).
[[nodiscard]] RankResources dry_resources(const Config& config, int rank);

// Members are built in order and destroyed in reverse.
struct Session {
  // `own` replaces the config's model and is copied. `decode` is for a model that continues texts.
  Session(RankResources resources, const Config& resolved, bool training,
          const OwnModel* own = nullptr, const DecodeShape& decode = {});

  Config config;
  OwnModel what;
  DecodeShape decode;
  bool dry;  // as in RankResources
  std::shared_ptr<Device> device;
  std::unique_ptr<Communicator> world;
  std::shared_ptr<void> watchdog;  // if one rank trains alone
  ProcessMesh mesh;
  Streams streams;
  std::unique_ptr<Stream> tensor_stream;
  TensorGroup tensor;
  std::optional<TensorGroup> wide_experts;  // if it has more ranks than the tensor group
  const TensorGroup* experts;               // Context::experts
  std::optional<TensorGroup> context;       // of context-parallel ranks, if there are several
  ScheduleShape pipeline;
  std::vector<LayerSummary> layers;
  StagePlan stages;
  std::unique_ptr<Model> model;

  [[nodiscard]] const ModelTraits& traits() const { return what.traits; }
  [[nodiscard]] const TensorGroup* context_group() const { return context ? &*context : nullptr; }
  // This rank's, for its own chain.
  [[nodiscard]] BuildOptions build_options(bool training, const DecodeShape& decode = {}) const;
  // Every parameter of the chain with the stage that holds it.
  [[nodiscard]] std::vector<PlacedParam> placed_params() const;
  // Decoding models: one with other rows per pass, which shares parameters and cache.
  [[nodiscard]] std::unique_ptr<Model> part_of_rows(std::int64_t rows) const;

 private:
  [[nodiscard]] std::unique_ptr<Model> make_part(bool training) const;
};

// Without embedded padding: elements of all weights of the chain; tied copies count once.
struct ParameterCounts {
  std::int64_t all = 0;
  std::int64_t trained = 0;  // not frozen
};
[[nodiscard]] ParameterCounts parameter_counts(const std::vector<LayerSummary>& layers);
// "1.85 M parameters, 84.1 k (4.54 %) of them trained; B: billions"
[[nodiscard]] std::string text_of(const ParameterCounts& counts);

// What training logs before its first step; the second, device memory, each part on the rank where
// it is largest. Collective.
void log_start(const Session& session, const Dataset& dataset);
void log_memory(Session& session, const Optimizer& optimizer);

// This rank's share of watching a data set.
[[nodiscard]] PayloadWatchOptions watch_of_rank(const Session& session);
[[nodiscard]] LoaderOptions loader_options(const DataConfig& data, int held = 1);
[[nodiscard]] LoaderOptions training_loader_options(const Session& session);

// The validation pass of a session; each run() evaluates the current weights once. Collective.
class ValidationPass {
 public:
  // Opens the config's validation data unless a data set is given. The session and the runner must
  // outlive the pass.
  ValidationPass(Session& session, PipelineRunner& runner,
                 std::shared_ptr<const Dataset> own = nullptr);
  [[nodiscard]] EvaluationResult run();
  [[nodiscard]] const Dataset& dataset() const { return *dataset_; }
  [[nodiscard]] PayloadWatch& watch() { return watch_; }
  // Number of samples per run(): all, or train.eval_batches of each source.
  [[nodiscard]] std::int64_t samples() const { return samples_; }

 private:
  void use_windows(std::vector<SampleRun>& runs);

  Session& session_;
  PipelineRunner& runner_;
  std::shared_ptr<const Dataset> dataset_;
  PayloadWatch watch_;
  std::int64_t samples_ = 0;
  std::vector<std::string> sources_;         // names, if data.sources have validation sets
  std::unique_ptr<SlidingWindows> windows_;  // with train.eval_overlap
  std::unique_ptr<Stitcher> stitcher_;       // then, where the head is
  EvaluationPlan plan_;
  std::unique_ptr<Loader> loader_;
};

}  // namespace trireme
