// SPDX-License-Identifier: Apache-2.0
#include "runtime/config/config.h"
#include "runtime/config/rules/rules.h"

namespace trireme {
namespace {

void resolve_device(Config& config, const Environment& environment) {
  if (config.device.type == DeviceChoice::automatic)
    config.device.type = environment.gpus > 0 ? DeviceChoice::cuda : DeviceChoice::cpu;
  if (config.precision != Precision::automatic) return;
  const bool native = config.device.type == DeviceChoice::cuda || environment.native_bf16;
  config.precision = native ? Precision::bf16 : Precision::fp32;
}

// parallel.* without training: one model replica per rank, unless the command line splits it.
// Generating a single text has no other use for several ranks, so there the run's own split applies
// if the number of ranks is a multiple of it.
ParallelConfig without_training(const config::Subject& subject) {
  const ParallelConfig& was = subject.config.parallel;
  const auto asked = [&](std::string_view key) { return subject.where.overridden.contains(key); };
  const bool split =
      asked("parallel.tensor") || asked("parallel.pipeline") || asked("parallel.spatial");
  const bool own = subject.purpose == Purpose::generate && !split &&
                   subject.environment.ranks % config::other_ranks(was) == 0;
  ParallelConfig kept;
  kept.check_collectives = was.check_collectives;
  kept.timeout_seconds = was.timeout_seconds;
  if (asked("parallel.data")) kept.data = was.data;
  if (own || asked("parallel.tensor")) kept.tensor = was.tensor;
  if (asked("parallel.expert")) kept.expert = was.expert;
  if (own || asked("parallel.pipeline")) kept.pipeline = was.pipeline;
  if (own || asked("parallel.spatial")) kept.spatial = was.spatial;
  if (asked("parallel.spatial_slabs") || subject.config.reproducibility == Reproducibility::layout)
    kept.spatial_slabs = was.spatial_slabs;
  const bool blocks = was.tensor_blocks > 0 && was.tensor_blocks % kept.tensor == 0;
  const bool same_bits = subject.config.reproducibility == Reproducibility::layout && blocks;
  kept.tensor_blocks =
      same_bits || asked("parallel.tensor_blocks") ? was.tensor_blocks : kept.tensor;
  return kept;
}

}  // namespace

Config resolve_config(const config::KeyTable& keys, Config config, const Environment& environment,
                      const Provenance* where, Purpose purpose) {
  TRIREME_EXPECTS(environment.ranks >= 1, "a job has at least one rank, not {}", environment.ranks);
  const Provenance nowhere;
  config::Subject subject{keys, config, environment, where == nullptr ? nowhere : *where, purpose};

  resolve_device(config, environment);
  config::check_device(subject);
  config::check_applicable(subject);
  subject.family().check(subject);
  config::check_data(subject);
  subject.limits = subject.family().limits(config);
  config::check_matmuls(subject);
  config::check_documents(subject);
  config::check_loss(subject);
  config::check_adapters(subject);
  if (purpose != Purpose::train) {
    config.parallel = without_training(subject);
    config::check_spatial(subject);
    config::check_layout(subject);
    config.parallel.data = environment.ranks / config::other_ranks(config.parallel);
    config::check_split(subject);
    return config;
  }
  config::check_spatial(subject);
  if (config.parallel.spatial_slabs.empty() && config.parallel.cuts_samples())
    config.parallel.spatial_slabs = config.parallel.spatial;
  config::check_layout(subject);
  if (config.parallel.data == 0)
    config.parallel.data = environment.ranks / config::other_ranks(config.parallel);
  if (config.parallel.tensor_blocks == 0) config.parallel.tensor_blocks = config.parallel.tensor;
  config.parallel.zero_group = config::checked_zero_group(subject);
  config::check_batch(subject);
  config::check_parallel(subject);
  config::check_schedule(subject);
  config::check_evaluation(subject);
  return config;
}

}  // namespace trireme
