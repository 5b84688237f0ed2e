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
    // One copy of the model per rank, however the run that made it was split.
    ParallelConfig whole;
    whole.data = environment.ranks;
    whole.check_collectives = config.parallel.check_collectives;
    whole.watch_seconds = config.parallel.watch_seconds;
    config.parallel = whole;
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
