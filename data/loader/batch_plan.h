// SPDX-License-Identifier: Apache-2.0
// The micro-batches of one rank, in order: the sample of each row.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/loader/sampler.h"
#include "runtime/config/batch_slices.h"

namespace trireme {

// Samples first, first + 1, ... of a data set.
struct SampleRun {
  std::int64_t first = 0, samples = 0;

  [[nodiscard]] std::int64_t micro_batches(std::int64_t rows) const {
    return (samples - 1) / rows + 1;
  }
};

class BatchPlan {
 public:
  // Training. A step has M = global_batch / micro_batch micro-batches, which `slices` gives to the
  // data-parallel ranks. Batch k of the plan is number k mod n of its n at step first_step + k / n.
  // With a batch ramp, which needs equal `slices`, M is that of the step.
  [[nodiscard]] static BatchPlan training(const Sampler& sampler, std::int64_t micro_batch,
                                          const BatchSlices& slices, std::int64_t rank,
                                          std::int64_t first_step);
  // With equal slices; raises ExitCode::config if that is impossible.
  [[nodiscard]] static BatchPlan training(const Sampler& sampler, std::int64_t micro_batch,
                                          std::int64_t rank, std::int64_t ranks,
                                          std::int64_t first_step, std::int64_t turns = 1);

  // One pass over runs of samples in order, each sample once: micro-batch k * D + r of the pass is
  // batch k of rank r of D. Every run starts a new micro-batch, and rows beyond its end are
  // padding. Every rank gets the same number of batches. The pass repeats after count() batches.
  [[nodiscard]] static BatchPlan evaluation(std::span<const SampleRun> runs,
                                            std::int64_t micro_batch, std::int64_t rank,
                                            std::int64_t ranks);
  // Over samples 0..N-1.
  [[nodiscard]] static BatchPlan evaluation(std::int64_t samples, std::int64_t micro_batch,
                                            std::int64_t rank, std::int64_t ranks);

  [[nodiscard]] std::int64_t micro_batch() const { return micro_batch_; }
  // Batches of this rank per step (training) or per pass (evaluation). With a ramp, those of the
  // largest step.
  [[nodiscard]] std::int64_t count() const { return count_; }
  // The step of a training batch.
  [[nodiscard]] std::int64_t step_of(std::int64_t batch) const;
  // Row `row` of batch `batch` (from 0, unbounded); sample -1 = padding.
  [[nodiscard]] SampleId at(std::int64_t batch, std::int64_t row) const;

 private:
  // Training: the step of a batch, and its number in that step.
  struct Place {
    std::int64_t step = 0, micro = 0;
  };
  BatchPlan() = default;
  [[nodiscard]] Place place(std::int64_t batch) const;

  std::optional<Sampler> sampler_;  // training, as are the slices
  std::optional<BatchSlices> slices_;
  // Evaluation: where each run's micro-batches begin in the pass.
  struct Part {
    SampleRun run;
    std::int64_t first_micro = 0;
  };
  std::vector<Part> parts_;
  std::int64_t micro_batch_ = 0;
  std::int64_t rank_ = 0;
  std::int64_t ranks_ = 1;
  std::int64_t count_ = 0;
  std::int64_t first_step_ = 0;
};

}  // namespace trireme
