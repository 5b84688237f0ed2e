// SPDX-License-Identifier: Apache-2.0
// What every use of a model has: the process of a rank, its device, its groups, its data and its
// part of the model.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/loader/loader.h"
#include "data/payload_watch.h"
#include "data/sets/dataset.h"
#include "models/registry.h"
#include "runtime/checkpoint/gather.h"
#include "runtime/comm/mpi.h"
#include "runtime/comm/process_mesh.h"
#include "runtime/config/config.h"
#include "runtime/parallel/stage_plan.h"
#include "runtime/train/evaluation.h"
#include "runtime/train/step/streams.h"

namespace trireme {

// MPI, logging and the label of error messages; one per process, first to be made: also before any
// other call of CUDA or NCCL in the process, whose settings it makes (device/gpu_environment.h).
struct RankProcess {
  RankProcess();
  [[nodiscard]] Environment environment() const;
  MpiEnvironment mpi;
};

[[nodiscard]] DeviceType device_type(const Config& config);
// Where this rank stands among those of its host that see the same GPUs, for a launcher may show
// each of them one of its own. Collective; blocks the host.
[[nodiscard]] DevicePlace device_place(Communicator& world, DeviceType type, bool share);
[[nodiscard]] MeshShape mesh_shape(const ParallelConfig& parallel);

// What is computed, where it is not the model of the config's `model` section.
struct OwnModel {
  Chain chain;
  ModelTraits traits;  // what its batches hold
};

// What a rank computes and communicates with.
struct RankResources {
  std::shared_ptr<Device> device;  // shared where a program uses it for more than one engine
  std::unique_ptr<Communicator> world;
  std::shared_ptr<void> watchdog;  // where one rank trains alone
  ProcessMesh mesh;
  bool dry = false;  // nothing runs, memory is only counted
};

// Those of this process. Collective.
[[nodiscard]] RankResources open_resources(const RankProcess& process, const Config& config,
                                           bool training);
// Those of one rank alone, whatever the job. Local.
[[nodiscard]] RankResources single_resources(std::shared_ptr<Device> device);
// Those of rank `rank` of a job that is only planned: nothing runs on them and no memory is
// touched, but all of it is counted (device/dry/dry_device.h).
[[nodiscard]] RankResources dry_resources(const Config& config, int rank);

// Members are made in order and torn down in reverse.
struct Session {
  // `own`: instead of the config's model; copied. `decode`: of a model that continues texts.
  Session(RankResources resources, const Config& resolved, bool training,
          const OwnModel* own = nullptr, const DecodeShape& decode = {});

  Config config;
  OwnModel what;
  DecodeShape decode;
  bool dry;  // as in RankResources
  std::shared_ptr<Device> device;
  std::unique_ptr<Communicator> world;
  std::shared_ptr<void> watchdog;  // where one rank trains alone
  ProcessMesh mesh;
  Streams streams;
  std::unique_ptr<Stream> tensor_stream;
  TensorGroup tensor;
  ScheduleShape pipeline;
  std::vector<LayerSummary> layers;
  StagePlan stages;
  std::unique_ptr<Model> model;

  [[nodiscard]] const ModelTraits& traits() const { return what.traits; }
  // Every parameter of the chain and the stage that holds it.
  [[nodiscard]] std::vector<PlacedParam> placed_params() const;
  // Of a model that decodes: one with other rows to a pass, which shares parameters and cache.
  [[nodiscard]] std::unique_ptr<Model> part_of_rows(std::int64_t rows) const;

 private:
  [[nodiscard]] std::unique_ptr<Model> make_part(bool training) const;
};

// Without embedded padding: elements of all weights of the chain, tied copies counted once.
struct ParameterCounts {
  std::int64_t all = 0;
  std::int64_t trained = 0;  // not frozen
};
[[nodiscard]] ParameterCounts parameter_counts(const std::vector<LayerSummary>& layers);
// "1234 parameters, 56 (4.54 %) of them trained"
[[nodiscard]] std::string text_of(const ParameterCounts& counts);

// This rank's part of watching a data set.
[[nodiscard]] PayloadWatchOptions watch_of_rank(const Session& session);
[[nodiscard]] LoaderOptions loader_options(const DataConfig& data, int held = 1);
[[nodiscard]] LoaderOptions training_loader_options(const Session& session);

// The validation pass of a session: each call of run() evaluates the current weights once.
// Collective.
class ValidationPass {
 public:
  // Opens what the config evaluates on, unless there is a data set already. The session and the
  // runner must outlive the pass.
  ValidationPass(Session& session, PipelineRunner& runner,
                 std::shared_ptr<const Dataset> own = nullptr);
  [[nodiscard]] EvaluationResult run();
  [[nodiscard]] const Dataset& dataset() const { return *dataset_; }
  [[nodiscard]] PayloadWatch& watch() { return watch_; }
  // Of these, how many each run() looks at: all, or of each source those of train.eval_batches.
  [[nodiscard]] std::int64_t samples() const { return samples_; }

 private:
  Session& session_;
  PipelineRunner& runner_;
  std::shared_ptr<const Dataset> dataset_;
  PayloadWatch watch_;
  std::int64_t samples_ = 0;
  std::vector<std::string> sources_;  // names, where data.sources have validation sets
  EvaluationPlan plan_;
  std::unique_ptr<Loader> loader_;
};

}  // namespace trireme
