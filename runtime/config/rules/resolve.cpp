// SPDX-License-Identifier: Apache-2.0
#include "runtime/config/config.h"
#include "runtime/config/lr_factors.h"
#include "runtime/config/rules/error_list.h"
#include "runtime/config/rules/exclusions.h"
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

// Lengths given as shares; train.epochs needs the data.
void resolve_lengths(const config::Subject& subject, Config& config) {
  LrScheduleConfig& schedule = config.lr_schedule;
  constexpr std::string_view epochs = "train.epochs", fraction = "lr_schedule.warmup_fraction";
  if (config.train.epochs > 0)
    refuse(subject, epochs,
           "{} epochs, but the number of samples is not known here; use train.steps",
           config.train.epochs);
  if (schedule.warmup_fraction == 0) return;
  if (schedule.warmup_steps > 0)
    refuse(subject, fraction, "{} with lr_schedule.warmup_steps = {}; keep one of them",
           schedule.warmup_fraction, schedule.warmup_steps);
  schedule.warmup_steps =
      rounded_up(schedule.warmup_fraction * static_cast<double>(config.train.steps));
  schedule.warmup_fraction = 0;
}

// The ranks of an evaluation share sequences as in training if their number allows it, so that
// those fit into memory; in layout mode the blocks stay in any case.
void keep_context(const config::Subject& subject, ParallelConfig& kept) {
  const ParallelConfig& was = subject.config.parallel;
  const auto asked = [&](std::string_view key) { return subject.where.overridden.contains(key); };
  const bool evaluates = subject.purpose == Purpose::evaluate;
  const bool fits = subject.environment.ranks % (config::other_ranks(kept) * was.context) == 0;
  if (asked("parallel.context") || (evaluates && fits)) kept.context = was.context;
  const bool same_bits = subject.config.reproducibility == Reproducibility::layout && evaluates &&
                         was.blocks() % kept.context == 0;
  if (asked("parallel.context_blocks") || same_bits) kept.context_blocks = was.blocks();
  const bool cuts = evaluates && kept.blocks() > 1;
  if (asked("parallel.context_mode") || cuts) kept.context_mode = was.context_mode;
}

// parallel.* without training: one model replica per rank, unless the command line splits it.
// Generating a single text has no other use for several ranks, so there the run's own split applies
// if the number of ranks is a multiple of it.
ParallelConfig without_training(const config::Subject& subject) {
  const ParallelConfig& was = subject.config.parallel;
  const auto asked = [&](std::string_view key) { return subject.where.overridden.contains(key); };
  const bool split =
      asked("parallel.tensor") || asked("parallel.pipeline") || asked("parallel.spatial");
  ParallelConfig whole = was;
  whole.context = 1;
  const bool own = subject.purpose == Purpose::generate && !split &&
                   subject.environment.ranks % config::other_ranks(whole) == 0;
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
  keep_context(subject, kept);
  return kept;
}

// Raises the errors of all `rules`, which do not need each other; null is none.
void check_all(const config::Subject& subject,
               std::initializer_list<void (*)(const config::Subject&)> rules) {
  config::ErrorList errors;
  for (const auto rule : rules)
    if (rule != nullptr) errors.attempt([&] { rule(subject); });
  errors.raise();
}

// Limits of a subject until it ends, without a copy.
struct Loan {
  ModelLimits &lender, &borrower;
  ~Loan() { std::swap(lender, borrower); }
};

}  // namespace

Config resolve_config(const config::KeyTable& keys, Config config, const Environment& environment,
                      const Provenance* where, Purpose purpose) {
  return config::resolve_config(keys, std::move(config), environment, where, purpose, nullptr);
}

Config config::resolve_config(const KeyTable& keys, Config config, const Environment& environment,
                              const Provenance* where, Purpose purpose, ModelLimits* known) {
  TRIREME_EXPECTS(environment.ranks >= 1, "a job has at least one rank, not {}", environment.ranks);
  const Provenance nowhere;
  config::Subject subject{keys, config, environment, where == nullptr ? nowhere : *where, purpose};

  resolve_device(config, environment);
  const bool trains = purpose == Purpose::train;
  if (trains) resolve_lengths(subject, config);
  check_all(subject, {check_device, check_applicable, subject.family().check, check_data,
                      trains ? check_schedule : nullptr});
  ModelLimits own;
  if (known == nullptr) own = subject.family().limits(config);
  const Loan loan{known == nullptr ? own : *known, subject.limits};
  std::swap(loan.lender, loan.borrower);
  check_all(subject, {check_matmuls, check_documents, check_loss, check_adapters,
                      trains ? check_evaluation : nullptr});
  if (!trains) {
    config.parallel = without_training(subject);
    check_spatial(subject);
    check_context(subject);
    check_layout(subject);
    config.parallel.data = environment.ranks / config::other_ranks(config.parallel);
    check_all(subject, {check_exclusions, check_split});
    return config;
  }
  check_all(subject, {check_parameters, check_spatial});
  if (config.parallel.spatial_slabs.empty() && config.parallel.cuts_samples())
    config.parallel.spatial_slabs = config.parallel.spatial;
  check_context(subject);
  if (config.parallel.context_blocks == 0) config.parallel.context_blocks = config.parallel.context;
  check_layout(subject);
  if (config.parallel.data == 0)
    config.parallel.data = environment.ranks / config::other_ranks(config.parallel);
  if (config.parallel.tensor_blocks == 0) config.parallel.tensor_blocks = config.parallel.tensor;
  config.parallel.zero_group = config::checked_zero_group(subject);
  check_batch(subject);
  check_all(subject, {check_exclusions, check_context_sums, check_parallel});
  return config;
}

}  // namespace trireme
