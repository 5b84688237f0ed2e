// SPDX-License-Identifier: Apache-2.0
// From the config's sections to the options of the rooms that do the work: the only place that
// translates.
#pragma once

#include "data/sampler.h"
#include "models/registry.h"
#include "runtime/config/config.h"
#include "runtime/telemetry/console.h"
#include "runtime/train/trainer.h"

namespace trireme {

[[nodiscard]] ItemKind item_kind(const ModelTraits& traits);
[[nodiscard]] SamplerOptions sampler_options(const Config& config, std::int64_t samples);
// `local_micro_batches`: how many of the global batch's micro-batches this rank runs.
[[nodiscard]] StepOptions step_options(const Config& config, std::int64_t local_micro_batches);
[[nodiscard]] TrainerOptions trainer_options(const Config& config, const ModelTraits& traits);
[[nodiscard]] ConsoleOptions console_options(const Config& config, const ModelTraits& traits);

}  // namespace trireme
