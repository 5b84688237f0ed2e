// SPDX-License-Identifier: Apache-2.0
// From the config's sections to the options of the rooms that do the work: the only place that
// translates.
#pragma once

#include "data/loader/sampler.h"
#include "launch/engine/agreement/core_sharing.h"
#include "models/registry.h"
#include "runtime/config/config.h"
#include "runtime/telemetry/console.h"
#include "runtime/train/step/step_engine.h"

namespace trireme {

[[nodiscard]] ItemKind item_kind(const ModelTraits& traits);
[[nodiscard]] SamplerOptions sampler_options(const Config& config, std::int64_t samples);
// Of the pipeline of data-parallel rank `data_rank`; the first has no fewer micro-batches than
// others. One micro-batch where nothing is trained.
[[nodiscard]] ScheduleShape pipeline_shape(const Config& config, bool training, int data_rank = 0);
// What decodes has no fp8 products and no split rows: passes of one row fit neither.
[[nodiscard]] BuildOptions build_options(const Config& config, int tensor_rank, bool training,
                                         const DecodeShape& decode = {});
// Whether a tied parameter's copies have memory of their own: where a pipeline may part them, and
// where sums must not depend on whether it does.
[[nodiscard]] bool separates_ties(const Config& config);
[[nodiscard]] std::int64_t bucket_elements(const Config& config);
// What data-parallel ranks send of gradients.
[[nodiscard]] DType reduced_dtype(const Config& config);
[[nodiscard]] StepOptions step_options(const Config& config, const ScheduleShape& pipeline,
                                       const ModelTraits& traits);
[[nodiscard]] ConsoleOptions console_options(const Config& config, const ModelTraits& traits,
                                             const RunFacts& facts);
// Of a resolved config.
[[nodiscard]] RunFacts run_facts(const Config& config, const CoreCrowd& crowd);

}  // namespace trireme
