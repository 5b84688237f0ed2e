// SPDX-License-Identifier: Apache-2.0
#include "data/loader/batch_plan.h"

#include <algorithm>

#include "runtime/base/error.h"

namespace trireme {

BatchPlan BatchPlan::training(const Sampler& sampler, std::int64_t micro_batch,
                              const BatchSlices& slices, std::int64_t rank,
                              std::int64_t first_step) {
  TRIREME_EXPECTS(micro_batch * slices.micro_batches() == sampler.global_batch() && first_step >= 0,
                  "{} micro-batches of {} for a batch of {}, from step {}", slices.micro_batches(),
                  micro_batch, sampler.global_batch(), first_step);
  BatchPlan plan;
  plan.sampler_ = sampler;
  plan.micro_batch_ = micro_batch;
  plan.rank_ = rank;
  plan.ranks_ = slices.ranks();
  plan.slices_ = slices;
  plan.count_ = slices.of(rank).count;
  plan.first_step_ = first_step;
  return plan;
}

BatchPlan BatchPlan::training(const Sampler& sampler, std::int64_t micro_batch, std::int64_t rank,
                              std::int64_t ranks, std::int64_t first_step, std::int64_t turns) {
  TRIREME_EXPECTS(micro_batch > 0 && ranks > 0, "micro-batches of {} for {} ranks", micro_batch,
                  ranks);
  const std::int64_t global = sampler.global_batch(), unit = micro_batch * ranks;
  if (global % unit != 0) {
    fail(ExitCode::config,
         "train.global_batch: {} is not a multiple of train.micro_batch * parallel.data = {} * {}; "
         "use {} or {}",
         global, micro_batch, ranks, std::max<std::int64_t>(1, global / unit) * unit,
         (global / unit + 1) * unit);
  }
  return training(sampler, micro_batch, BatchSlices::even(global / micro_batch, ranks, turns), rank,
                  first_step);
}

BatchPlan BatchPlan::evaluation(std::int64_t samples, std::int64_t micro_batch, std::int64_t rank,
                                std::int64_t ranks) {
  const SampleRun all{0, samples};
  return evaluation(std::span(&all, 1), micro_batch, rank, ranks);
}

BatchPlan BatchPlan::evaluation(std::span<const SampleRun> runs, std::int64_t micro_batch,
                                std::int64_t rank, std::int64_t ranks) {
  BatchPlan plan;
  std::int64_t micros = 0;
  for (const SampleRun& run : runs) {
    TRIREME_EXPECTS(run.samples > 0 && micro_batch > 0 && rank >= 0 && rank < ranks,
                    "{} samples in batches of {}, rank {} of {}", run.samples, micro_batch, rank,
                    ranks);
    plan.parts_.push_back({run, micros});
    micros += run.micro_batches(micro_batch);
  }
  plan.count_ = (micros - 1) / ranks + 1;
  plan.micro_batch_ = micro_batch;
  plan.rank_ = rank;
  plan.ranks_ = ranks;
  return plan;
}

BatchPlan::Place BatchPlan::place(std::int64_t batch) const {
  if (!slices_->equal())
    return {first_step_ + batch / count_, slices_->number(rank_, batch % count_, count_)};
  const BatchRamp& ramp = sampler_->ramp();
  const std::int64_t together = micro_batch_ * ranks_;  // samples in one batch of all ranks
  const std::int64_t sample = ramp.samples_before(first_step_) + batch * together;
  const std::int64_t step = ramp.step_of(sample), count = ramp.size_at(step) / together;
  const std::int64_t own = (sample - ramp.samples_before(step)) / together;
  return {step, slices_->number(rank_, own, count)};
}

std::int64_t BatchPlan::step_of(std::int64_t batch) const {
  TRIREME_EXPECTS(sampler_.has_value(), "the plan of an evaluation has no steps");
  return place(batch).step;
}

SampleId BatchPlan::at(std::int64_t batch, std::int64_t row) const {
  if (sampler_) {
    const auto [step, micro] = place(batch);
    return sampler_->at(step, micro * micro_batch_ + row);
  }
  const std::int64_t micro = (batch % count_) * ranks_ + rank_;
  const auto next = std::ranges::upper_bound(parts_, micro, {}, &Part::first_micro);
  const Part& part = *std::prev(next);
  const std::int64_t at = (micro - part.first_micro) * micro_batch_ + row;
  return {batch / count_, at < part.run.samples ? part.run.first + at : -1};
}

}  // namespace trireme
