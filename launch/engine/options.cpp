// SPDX-License-Identifier: Apache-2.0
#include "launch/engine/options.h"

#include "models/config.h"
#include "runtime/config/batch_ramp.h"
#include "runtime/config/batch_slices.h"
#include "runtime/telemetry/advice.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace trireme {
namespace {

AdapterOptions adapter_options(const LoraConfig& config) {
  if (config.rank == 0) return {};
  return {.rank = config.rank,
          .scale = static_cast<float>(config.scale()),
          .dropout = static_cast<float>(config.dropout),
          .targets = config.targets};
}

std::optional<ops::LossScaleOptions> loss_scale_options(const Config& config) {
  if (config.precision != Precision::fp16) return std::nullopt;
  const LossScaleConfig& scale = config.loss_scale;
  return ops::LossScaleOptions{.initial = static_cast<float>(scale.initial),
                               .growth_interval = static_cast<float>(scale.growth_interval),
                               .factor = static_cast<float>(scale.factor),
                               .minimum = static_cast<float>(scale.minimum)};
}

StepSizes step_sizes(const TrainConfig& train) {
  if (train.batch_ramp.empty()) return {};
  const BatchRamp ramp = batch_ramp(train);
  const std::int64_t rows = train.micro_batch;
  return {.at = [ramp, rows](std::int64_t step) { return ramp.size_at(step) / rows; },
          .before = [ramp, rows](std::int64_t step) { return ramp.samples_before(step) / rows; }};
}

// If several micro-batches use them, and a rank owns its weights.
bool keeps_fp8_weights(const Config& config) {
  const ParallelConfig& parallel = config.parallel;
  return config.precision == Precision::fp8 && parallel.zero < 3 &&
         batch_slices(config).largest() > 1;
}

// Also for a config file beside a run, which may have auto for its data ranks.
bool has_uneven_batch(const Config& config) {
  return config.parallel.data > 1 &&
         config.train.global_batch >= config.train.micro_batch * config.parallel.data &&
         !batch_slices(config).equal();
}

}  // namespace

ItemKind item_kind(const ModelTraits& traits) {
  if (traits.input == InputKind::fields) return ItemKind::samples;
  return traits.input == InputKind::tokens ? ItemKind::tokens : ItemKind::images;
}

SamplerOptions sampler_options(const Config& config, std::int64_t samples) {
  return {.samples = samples,
          .global_batch = config.train.global_batch,
          .seed = config.run.seed,
          .shuffle = config.data.shuffle,
          .block = config.data.shuffle_block,
          .last_batch = config.data.last_batch,
          .ramp = batch_ramp(config.train)};
}

ScheduleShape pipeline_shape(const Config& config, bool training, int sample_rank) {
  const ParallelConfig& parallel = config.parallel;
  if (!training) return {.stages = static_cast<int>(parallel.pipeline)};
  ScheduleShape shape{.kind = parallel.schedule,
                      .stages = static_cast<int>(parallel.pipeline),
                      .micro_batches = static_cast<int>(batch_slices(config).of(sample_rank).count),
                      .chunks = static_cast<int>(parallel.chunks)};
  // A single stage cannot overlap: every schedule then alternates forward and backward.
  if (shape.stages == 1 && shape.kind != ScheduleKind::zero_bubble)
    shape.kind = ScheduleKind::one_f_one_b;
  if (const auto reason = unsupported(shape))
    fail(ExitCode::config, "parallel.schedule: {}: {}", name_of(parallel.schedule), *reason);
  return shape;
}

SpatialSplit spatial_split(const ParallelConfig& parallel, int rank) {
  SpatialSplit split{.rank = rank};
  std::ranges::copy(parallel.spatial, split.ranks.begin());
  std::ranges::copy(parallel.spatial_slabs.empty() ? parallel.spatial : parallel.spatial_slabs,
                    split.slabs.begin());
  return split;
}

ContextSplit context_split(const Config& config, int data_rank) {
  const ParallelConfig& parallel = config.parallel;
  const auto ranks = static_cast<int>(parallel.context);
  return {.ranks = ranks,
          .rank = data_rank % ranks,
          .blocks = static_cast<int>(parallel.blocks()),
          .positions = traits_of(config.model).context,
          .mode = parallel.context_mode};
}

int local_blocks(const Config& config) {
  return context_split(config, 0).local();
}

TensorSplit expert_split(const ParallelConfig& parallel, const MeshCoordinates& here) {
  const int data = static_cast<int>(parallel.expert_data_ranks());
  const int tensor = static_cast<int>(parallel.inner_ranks()), ranks = data * tensor;
  return {.ranks = ranks, .rank = here.data % data * tensor + here.tensor, .blocks = ranks};
}

BuildOptions build_options(const Config& config, const MeshCoordinates& here, bool training,
                           const DecodeShape& decode) {
  const ParallelConfig& parallel = config.parallel;
  const bool decodes = decode.rows > 0;
  return {.compute = compute_dtype(config.precision),
          .micro_batch = config.train.micro_batch,
          .training = training,
          .reproducibility = config.reproducibility,
          .recompute = config.train.recompute,
          .split_backward = training && parallel.schedule == ScheduleKind::zero_bubble,
          .row_tile = config.train.row_tile,
          .separate_documents =
              config.data.documents == Documents::separate || !config.train.context_ramp.empty(),
          .tensor = {.ranks = static_cast<int>(parallel.inner_ranks()),
                     .rank = here.tensor,
                     .blocks = static_cast<int>(
                         std::max<std::int64_t>(parallel.tensor_blocks, parallel.inner_ranks()))},
          .sums = {.rounded = config.reproducibility != Reproducibility::layout,
                   .chunks = decodes ? 1 : static_cast<int>(parallel.tensor_chunks),
                   .sequence = parallel.sequence && !decodes},
          .experts = {.split = expert_split(parallel, here),
                      .data_ranks = static_cast<int>(parallel.expert_data_ranks()),
                      .capacity_factor = parallel.expert_capacity_factor,
                      .imbalance = parallel.expert_imbalance},
          .spatial = spatial_split(parallel, here.tensor),
          .context = decodes ? ContextSplit{} : context_split(config, here.data),
          .decode = decode,
          .fp8 = {.on = config.precision == Precision::fp8 && !decodes,
                  .recipe = config.fp8_recipe,
                  .keeps_weights = training && keeps_fp8_weights(config)},
          .adapters = adapter_options(config.lora),
          .rules = param_rules(config)};
}

bool separates_ties(const Config& config) {
  return config.parallel.pipeline > 1 || config.parallel.zero >= 2 ||
         config.train.noise_scale_every > 0 || config.reproducibility == Reproducibility::layout;
}

double bucket_megabytes(const Config& config) {
  const double given = config.parallel.bucket_megabytes;
  return given > 0 ? given : config.device.type == DeviceChoice::cuda ? 25 : 4;
}

std::int64_t bucket_elements(const Config& config) {
  constexpr double bytes_per_megabyte = 1024 * 1024;
  return std::llround(bucket_megabytes(config) * bytes_per_megabyte / sizeof(float));
}

std::string mesh_text(const ParallelConfig& parallel) {
  const bool cuts = parallel.cuts_samples();
  return fmt::format(
      "data {}{} x {} {} x pipeline {}{}", parallel.data,
      parallel.context > 1 ? fmt::format(" x context {}", parallel.context) : "", inner_axis(cuts),
      cuts ? fmt::format("{}", fmt::join(parallel.spatial, " x "))
           : fmt::format("{}", parallel.tensor),
      parallel.pipeline,
      parallel.expert_data_ranks() > 1 ? fmt::format(", experts over {}", parallel.expert) : "");
}

std::string routing_text(const Config& config) {
  const bool forced = std::ranges::any_of(values_by_key(config), [](const auto& each) {
    return each.first == "model.router_balanced" && each.second == "true";
  });
  return forced ? "forced balanced routing" : "";
}

std::string zero_text(const ParallelConfig& parallel) {
  return parallel.zero_group > 0 && parallel.zero_group < parallel.data_ranks()
             ? fmt::format("{} in groups of {}", parallel.zero, parallel.zero_group)
             : fmt::format("{}", parallel.zero);
}

DType reduced_dtype(const Config& config) {
  return config.parallel.reduce_dtype == ReduceDtype::compute ? compute_dtype(config.precision)
                                                              : DType::f32;
}

CtaLimits cta_limits(const Config& config) {
  // ZeRO 2 and 3 hold those of gradients and of parameters at once.
  constexpr int of_links = 2;
  const int of_data = config.parallel.zero >= 2 ? 8 : 16;
  const CommConfig& comm = config.comm;
  const auto chosen = [&](std::int64_t own, int by_role) {
    if (own > 0) return static_cast<int>(own);
    if (comm.max_ctas > 0) return static_cast<int>(comm.max_ctas);
    return std::max(by_role, static_cast<int>(comm.min_ctas));
  };
  const int data = chosen(comm.data_ctas, of_data);
  CtaLimits limits{.least = static_cast<int>(comm.min_ctas)};
  const auto set = [&](CommRole role, int ctas) {
    limits.most[static_cast<std::size_t>(role)] = ctas;
  };
  set(CommRole::control, chosen(0, nccl_most_ctas));
  set(CommRole::data, data);
  set(CommRole::gather, data);
  set(CommRole::tensor, chosen(comm.tensor_ctas, nccl_most_ctas));
  set(CommRole::link, chosen(comm.link_ctas, of_links));
  return limits;
}

int reserved_processors(const Config& config) {
  return config.reproducibility == Reproducibility::layout ? static_cast<int>(config.comm.max_ctas)
                                                           : 0;
}

// Reductions of ZeRO 0 and 1 are a small part of the last backward: second waves during them cost
// less than fewer multiprocessors for all of it, unless the user finds otherwise (max_ctas).
MessageProcessors message_processors(const Config& config, const ScheduleShape& pipeline) {
  const ParallelConfig& parallel = config.parallel;
  const CtaLimits limits = cta_limits(config);
  const auto left_to = [&](CommRole role) {
    const int most = limits.most_of(role);
    const bool by_place = config.reproducibility != Reproducibility::layout;
    return by_place && most < nccl_most_ctas ? most : 0;
  };
  const int receives = pipeline.stages == 1                           ? 0
                       : pipeline.stages == 2 && pipeline.chunks == 1 ? 1
                                                                      : 2;
  const bool leaves = parallel.data_ranks() > 1 && (parallel.zero >= 2 || config.comm.max_ctas > 0);
  return {.receives = receives,
          .link = left_to(CommRole::link),
          .tensor = parallel.inner_ranks() * parallel.context > 1 ? left_to(CommRole::tensor) : 0,
          .data = leaves ? left_to(CommRole::data) : 0,
          .gather = leaves && parallel.zero > 0 ? left_to(CommRole::gather) : 0,
          .zero = static_cast<int>(parallel.zero)};
}

StepOptions step_options(const Config& config, const ScheduleShape& pipeline,
                         const ModelTraits& traits) {
  const bool exact = config.reproducibility == Reproducibility::layout;
  // Noise is measured on gradients of single micro-batches, which a running sum does not keep.
  const bool tree = exact || config.train.noise_scale_every > 0;
  return {
      .seed = config.run.seed,
      .pipeline = pipeline,
      .batch = {.slices = batch_slices(config),
                .blocks = local_blocks(config),
                .sizes = step_sizes(config.train),
                .targets_per_micro_batch = config.train.micro_batch * traits.targets_per_sample()},
      .loss = {.label_smoothing = static_cast<float>(config.train.label_smoothing),
               .z_loss = static_cast<float>(config.train.z_loss)},
      .reducer = {.mode = config.parallel.reducer,
                  .sum = tree ? GradientSum::tree : GradientSum::running,
                  .sent = reduced_dtype(config),
                  .micro_batches = pipeline.micro_batches,
                  .chunks = {}},
      .beside_messages = message_processors(config, pipeline),
      .layout_independent = exact,
      .graphs = config.device.graphs,
      .gradients = {.clip_norm = static_cast<float>(config.train.clip_norm),
                    .loss_scale = loss_scale_options(config),
                    .loss_guard = {.spike_zscore = config.train.spike_zscore,
                                   .spike_window = config.train.spike_window}},
      .optimizer = config.optimizer,
      .schedule = lr_schedule(config)};
}

ConsoleOptions console_options(const Config& config, const ModelTraits& traits,
                               const RunFacts& facts) {
  return {.steps = config.train.steps,
          .log_every = config.train.log_every,
          .items = item_kind(traits),
          .facts = facts};
}

RunFacts run_facts(const Config& config, const CoreCrowd& crowd) {
  const ParallelConfig& parallel = config.parallel;
  return {.ranks = static_cast<int>(parallel.ranks()),
          .data = static_cast<int>(parallel.data_ranks()),
          .tensor = static_cast<int>(parallel.inner_ranks()),
          .pipeline = static_cast<int>(parallel.pipeline),
          .context = static_cast<int>(parallel.context),
          .cuts_samples = parallel.inner_ranks() > parallel.tensor,
          .zero = static_cast<int>(parallel.zero),
          .zero_bubble = parallel.schedule == ScheduleKind::zero_bubble,
          .on_cpu = config.device.type == DeviceChoice::cpu,
          .host_ranks = static_cast<int>(crowd.ranks.size()),
          .host_cores = crowd.cores,
          .data_workers = config.data.workers,
          .eval_every = config.train.eval_every,
          .eval_batches = config.train.eval_batches,
          .warmup_steps = config.lr_schedule.warmup_steps,
          .clip_norm = config.train.clip_norm,
          .checkpoint_every = config.checkpoint.every_steps,
          .checkpoint_async = config.checkpoint.async,
          .full_recompute = config.train.recompute == Recompute::full,
          .global_batch = config.train.global_batch,
          .micro_batch = config.train.micro_batch,
          .uneven_batch = has_uneven_batch(config)};
}

}  // namespace trireme
