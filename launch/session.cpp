// SPDX-License-Identifier: Apache-2.0
#include "launch/session.h"

#include <algorithm>

#include "data/batch_plan.h"
#include "runtime/base/log.h"
#include "runtime/device/cpu/cpu_features.h"

namespace trireme {
namespace {

std::unique_ptr<Communicator> make_world(const RankProcess& process, const Config& config) {
  auto world = process.mpi.world();
  return config.parallel.check_collectives ? make_checked(std::move(world)) : std::move(world);
}

MeshShape mesh_shape(const ParallelConfig& parallel) {
  return {.pipeline = static_cast<int>(parallel.pipeline),
          .data = static_cast<int>(parallel.data),
          .tensor = static_cast<int>(parallel.tensor)};
}

DeviceType device_type(const Config& config) {
  return config.device.type == "cuda" ? DeviceType::cuda : DeviceType::cpu;
}

}  // namespace

RankProcess::RankProcess() : mpi(nullptr, nullptr) {
  log::initialize(mpi.rank());
  set_process_label(mpi.rank(), mpi.size());
}

Environment RankProcess::environment() const {
  return {.ranks = mpi.size(), .cuda_in_build = false, .native_bf16 = cpu_has_bf16()};
}

Session::Session(const RankProcess& process, const Config& resolved, bool training)
    : config(resolved),
      traits(traits_of(config.model)),
      world(make_world(process, config)),
      mesh(*world, mesh_shape(config.parallel)),
      device(Device::create(device_type(config), process.mpi.local_rank())),
      streams(*device),
      model(make_model(*device, config, config.train.micro_batch, training)) {}

std::unique_ptr<Dataset> Session::open_dataset(const std::string& path,
                                               const std::string& split) const {
  const ModelConfig& model_config = config.model;
  DatasetOptions options{.split = split};
  if (traits.input == InputKind::tokens) {
    options.context = model_config.context;
    options.vocabulary = model_config.vocabulary;
  } else {
    options.classes = model_config.classes;
    options.image_size = model_config.image_size;
    options.channels = model_config.channels;
  }
  return Dataset::open(path, options);
}

ValidationPass::ValidationPass(Session& session, const std::string& path, std::int64_t batch_limit)
    : session_(session), dataset_(session.open_dataset(path, "validation")) {
  const Config& config = session.config;
  const Communicator& group = session.mesh.data();
  const BatchPlan plan = BatchPlan::evaluation(dataset_->size(), config.train.micro_batch,
                                               group.rank(), group.size(), batch_limit);
  const std::int64_t covered = plan.count() * config.train.micro_batch * group.size();
  plan_ = {.local_batches = plan.count(),
           .targets = std::min(covered, dataset_->size()) * session.traits.targets_per_sample};
  loader_ = std::make_unique<Loader>(
      *session.device, *dataset_, plan,
      LoaderOptions{.workers = config.data.workers, .prefetch = config.data.prefetch});
}

EvaluationResult ValidationPass::run() {
  return evaluate(*session_.device, *session_.model, session_.mesh.data(), session_.streams,
                  *loader_, plan_);
}

}  // namespace trireme
