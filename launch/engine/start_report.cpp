// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "launch/engine/data_sets.h"
#include "launch/engine/memory_plan.h"
#include "launch/engine/options.h"
#include "launch/engine/session.h"
#include "runtime/base/log.h"
#include "runtime/config/batch_ramp.h"
#include "runtime/config/batch_slices.h"
#include "runtime/ops/attention/attention.h"
#include "runtime/ops/common/library_version.h"
#include "runtime/optim/optimizer.h"

namespace trireme {

void log_start(const Session& session, const Dataset& dataset) {
  const Config& config = session.config;
  const ParallelConfig& parallel = config.parallel;
  const int ranks = session.world->size();
  log::get("train").info("{} with {} in {} on {} rank{}: {}, ZeRO {}, reproducibility {}",
                         config.model.family, text_of(parameter_counts(session.layers)),
                         name_of(config.precision), ranks, ranks == 1 ? "" : "s",
                         mesh_text(parallel), zero_text(parallel), name_of(config.reproducibility));
  const BatchRamp ramp = batch_ramp(config.train);
  log::get("train").info(
      "{} steps of {}{} samples; {} samples in {}; seed {}", config.train.steps,
      ramp.phases().size() == 1 ? "" : fmt::format("{} to ", ramp.phases().front().size),
      config.train.global_batch, dataset.size(), describe_training_data(config, dataset),
      config.run.seed.value);
  log::get("train").debug(
      "schedule {}, recompute {}, tensor blocks {}{}, gradient buckets of {} MB",
      name_of(parallel.schedule), name_of(config.train.recompute),
      std::max<std::int64_t>(parallel.tensor_blocks, 1),
      parallel.blocks() > 1 ? fmt::format(", context blocks {}", parallel.blocks()) : "",
      bucket_megabytes(config));
  if (session.device->type() == DeviceType::cuda) {
    const std::string cudnn = ops::cudnn_version();
    log::get("train").debug(
        "attention: {}; convolution: {}",
        ops::attention_backend(DeviceType::cuda, compute_dtype(config.precision)),
        cudnn.empty() ? "own kernels" : "cuDNN " + cudnn);
  }
  if (config.device.graphs == GraphMode::step && parallel.pipeline > 1) {
    log::get("train").info(
        "device.graphs: step: steps run without graphs, because transfers of pipeline stages reach "
        "into the next step; use layer to record the layers");
  }
  if (const std::string routing = routing_text(config); !routing.empty())
    log::get("train").warn("{} (model.router_balanced): the model learns little", routing);
  if (const BatchSlices slices = batch_slices(config); !slices.equal())
    log::get("train").info("micro-batches of data ranks: {}", slices.to_string());
}

void log_memory(Session& session, const Optimizer& optimizer) {
  const ParamStore& params = session.model->params();
  const auto bytes = largest_of_any_rank<4>(
      *session.world, {static_cast<std::int64_t>(params.parameter_bytes()),
                       static_cast<std::int64_t>(params.gradient_bytes()),
                       static_cast<std::int64_t>(optimizer.state_bytes()),
                       static_cast<std::int64_t>(session.model->activation_bytes())});
  if (session.world->rank() != 0) return;
  const auto mib = [](std::int64_t value) { return static_cast<double>(value) / (1 << 20); };
  log::get("train").debug(
      "buffers per rank at most: parameters {:.2f} MiB, gradients {:.2f} MiB, optimizer {:.2f} "
      "MiB, activations {:.2f} MiB",
      mib(bytes[0]), mib(bytes[1]), mib(bytes[2]), mib(bytes[3]));
}

}  // namespace trireme
