// SPDX-License-Identifier: Apache-2.0
#include "launch/options.h"

#include <cmath>

namespace trireme {
namespace {

OptimizerOptions optimizer_options(const OptimizerConfig& config) {
  if (config.name == "sgd") {
    return ops::SgdOptions{.momentum = static_cast<float>(config.momentum),
                           .nesterov = config.nesterov,
                           .weight_decay = static_cast<float>(config.weight_decay)};
  }
  return ops::AdamWOptions{.beta1 = static_cast<float>(config.betas[0]),
                           .beta2 = static_cast<float>(config.betas[1]),
                           .epsilon = static_cast<float>(config.epsilon),
                           .weight_decay = static_cast<float>(config.weight_decay)};
}

LrSchedule::Kind schedule_kind(const std::string& name) {
  if (name == "constant") return LrSchedule::Kind::constant;
  if (name == "linear") return LrSchedule::Kind::linear;
  if (name == "wsd") return LrSchedule::Kind::wsd;
  return LrSchedule::Kind::cosine;
}

}  // namespace

ItemKind item_kind(const ModelTraits& traits) {
  return traits.input == InputKind::tokens ? ItemKind::tokens : ItemKind::images;
}

SamplerOptions sampler_options(const Config& config, std::int64_t samples) {
  return {.samples = samples,
          .global_batch = config.train.global_batch,
          .seed = config.run.seed,
          .shuffle = config.data.shuffle,
          .last_batch = last_batch_from(config.data.last_batch)};
}

StepOptions step_options(const Config& config, std::int64_t local_micro_batches) {
  const LrScheduleConfig& schedule = config.lr_schedule;
  return {.seed = config.run.seed,
          .local_micro_batches = static_cast<int>(local_micro_batches),
          .global_micro_batches =
              static_cast<int>(config.train.global_batch / config.train.micro_batch),
          .clip_norm = static_cast<float>(config.train.clip_norm),
          .label_smoothing = static_cast<float>(config.train.label_smoothing),
          .reducer = config.parallel.reducer == "inline" ? ReducerMode::inline_after_backward
                                                         : ReducerMode::overlapped,
          .bucket_bytes = std::llround(config.parallel.bucket_megabytes * 1024 * 1024),
          .optimizer = optimizer_options(config.optimizer),
          .schedule = {.kind = schedule_kind(schedule.name),
                       .peak = config.optimizer.learning_rate,
                       .steps = config.train.steps,
                       .warmup_steps = schedule.warmup_steps,
                       .minimum_ratio = schedule.minimum_ratio,
                       .decay_fraction = schedule.decay_fraction}};
}

TrainerOptions trainer_options(const Config& config, const ModelTraits& traits) {
  return {.steps = config.train.steps,
          .eval_every = config.train.eval_every,
          .non_finite_limit = config.train.non_finite_limit,
          .classifier = traits.input == InputKind::images};
}

ConsoleOptions console_options(const Config& config, const ModelTraits& traits) {
  return {
      .steps = config.train.steps, .log_every = config.train.log_every, .items = item_kind(traits)};
}

}  // namespace trireme
