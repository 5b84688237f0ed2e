// SPDX-License-Identifier: Apache-2.0
#include "runtime/config/config.h"
#include "runtime/config/rules.h"

namespace trireme {
namespace {

void resolve_device(Config& config, const Environment& environment) {
  if (config.device.type == "auto") config.device.type = environment.gpus > 0 ? "cuda" : "cpu";
  if (config.precision == "auto") {
    config.precision = config.device.type == "cuda" || environment.native_bf16 ? "bf16" : "fp32";
  }
}

// What is left of parallel.* where nothing is trained: one copy of the model on every rank, unless
// the command line splits it. A text to generate has no other use for several ranks, so there the
// run's own split holds where the ranks are a multiple of it.
ParallelConfig without_training(const config::Subject& subject) {
  const ParallelConfig& was = subject.config.parallel;
  const auto asked = [&](std::string_view key) { return subject.where.overridden.contains(key); };
  const bool split = asked("parallel.tensor") || asked("parallel.pipeline");
  const bool own = subject.purpose == Purpose::generate && !split &&
                   subject.environment.ranks % (was.tensor * was.pipeline) == 0;
  ParallelConfig kept;
  kept.check_collectives = was.check_collectives;
  kept.watch_seconds = was.watch_seconds;
  if (asked("parallel.data")) kept.data = was.data;
  if (own || asked("parallel.tensor")) kept.tensor = was.tensor;
  if (own || asked("parallel.pipeline")) kept.pipeline = was.pipeline;
  const bool blocks = was.virtual_tensor > 0 && was.virtual_tensor % kept.tensor == 0;
  const bool same_bits = kept.tensor > 1 && subject.config.reproducibility == "layout" && blocks;
  kept.virtual_tensor =
      same_bits || asked("parallel.virtual_tensor") ? was.virtual_tensor : kept.tensor;
  return kept;
}

}  // namespace

Config resolve_config(Config config, const Environment& environment, const Provenance* where,
                      Purpose purpose) {
  TRIREME_EXPECTS(environment.ranks >= 1, "a job has at least one rank, not {}", environment.ranks);
  const Provenance nowhere;
  const config::Subject subject{config, environment, where == nullptr ? nowhere : *where, purpose};

  resolve_device(config, environment);
  config::check_device(subject);
  config::check_support(subject);
  config::check_applicable(subject);
  config::check_model(subject);
  config::check_data(subject);
  if (purpose != Purpose::train) {
    config.parallel = without_training(subject);
    config::check_layout(subject);
    config.parallel.data = environment.ranks / config::other_ranks(config.parallel);
    config::check_split(subject);
    return config;
  }
  config::check_layout(subject);
  if (config.parallel.data == 0)
    config.parallel.data = environment.ranks / config::other_ranks(config.parallel);
  if (config.parallel.virtual_tensor == 0) config.parallel.virtual_tensor = config.parallel.tensor;
  config::check_batch(subject);
  config::check_parallel(subject);
  config::check_schedule(subject);
  return config;
}

}  // namespace trireme
