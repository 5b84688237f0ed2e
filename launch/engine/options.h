// SPDX-License-Identifier: Apache-2.0
// Translates config sections into the options of the other modules; nothing else does.
#pragma once

#include <functional>

#include "data/loader/sampler.h"
#include "launch/engine/agreement/core_sharing.h"
#include "models/registry.h"
#include "runtime/comm/comm_role.h"
#include "runtime/comm/process_mesh.h"
#include "runtime/config/config.h"
#include "runtime/telemetry/console.h"
#include "runtime/train/step/step_engine.h"

namespace trireme {

[[nodiscard]] ItemKind item_kind(const ModelTraits& traits);
[[nodiscard]] SamplerOptions sampler_options(const Config& config, std::int64_t samples);
// Pipeline shape of sample rank `sample_rank`; rank 0 has at least as many micro-batches as any
// other. One micro-batch without training.
[[nodiscard]] ScheduleShape pipeline_shape(const Config& config, bool training,
                                           int sample_rank = 0);
// A decoding model has no fp8 products and no row chunks: neither fits passes of one row.
[[nodiscard]] BuildOptions build_options(const Config& config, const MeshCoordinates& here,
                                         bool training, const DecodeShape& decode = {});
// Whether copies of a tied parameter have their own memory: a pipeline may place them on different
// stages, and some sums must not depend on that.
[[nodiscard]] bool separates_ties(const Config& config);
// parallel.bucket_megabytes: links of GPUs need larger messages to be busy.
[[nodiscard]] double bucket_megabytes(const Config& config);
[[nodiscard]] std::int64_t bucket_elements(const Config& config);
// Of model.router_balanced, for everything that states a run's speed or results; else "".
[[nodiscard]] std::string routing_text(const Config& config);
// "data 2 x tensor 1 x pipeline 1", or with "spatial 2 x 2 x 1" in place of tensor, or with "data 2
// x context 4 x ...".
[[nodiscard]] std::string mesh_text(const ParallelConfig& parallel);
// Sequences that are cut in time, for a data rank.
[[nodiscard]] ContextSplit context_split(const Config& config, int data_rank);
// ContextSplit::local.
[[nodiscard]] int local_blocks(const Config& config);
[[nodiscard]] SpatialSplit spatial_split(const ParallelConfig& parallel, int tensor_rank);
// "3 in groups of 8".
[[nodiscard]] std::string zero_text(const ParallelConfig& parallel);
// The dtype in which data-parallel ranks send gradients.
[[nodiscard]] DType reduced_dtype(const Config& config);
// Thread blocks of NCCL's calls.
[[nodiscard]] CtaLimits cta_limits(const Config& config);
// Multiprocessors that matmuls always leave to NCCL in reproducibility: layout, because their
// algorithm depends on it (ExecutionPolicy). 0 in the other modes.
[[nodiscard]] int reserved_processors(const Config& config);
// In the other modes, by the place in a step.
[[nodiscard]] MessageProcessors message_processors(const Config& config,
                                                   const ScheduleShape& pipeline);
[[nodiscard]] StepOptions step_options(const Config& config, const ScheduleShape& pipeline,
                                       const ModelTraits& traits);
[[nodiscard]] ConsoleOptions console_options(const Config& config, const ModelTraits& traits,
                                             const RunFacts& facts);
// `config` is resolved.
[[nodiscard]] RunFacts run_facts(const Config& config, const CoreCrowd& crowd);

}  // namespace trireme
