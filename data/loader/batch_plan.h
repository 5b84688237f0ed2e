// SPDX-License-Identifier: Apache-2.0
// The micro-batches of one rank, in order: which sample stands in each row.
#pragma once

#include <cstdint>
#include <optional>

#include "data/loader/sampler.h"

namespace trireme {

class BatchPlan {
 public:
  // Training. A step has M = global_batch / micro_batch micro-batches; data-parallel rank r of D
  // owns M / D of them: the run [r * M / D, (r + 1) * M / D), or when `strided` r, r + D, r + 2 D,
  // ... Batch k of the plan is number k mod (M / D) of these at step first_step + k / (M / D).
  // Raises ExitCode::config when G is not a multiple of micro_batch * D.
  [[nodiscard]] static BatchPlan training(const Sampler& sampler, std::int64_t micro_batch,
                                          std::int64_t rank, std::int64_t ranks,
                                          std::int64_t first_step, bool strided = false);

  // One pass over samples 0..N-1 in order, each once: batch k of rank r of D holds samples from
  // (k * D + r) * micro_batch on. Every rank gets the same number of batches; rows beyond N are
  // padding. The pass repeats after count() batches.
  [[nodiscard]] static BatchPlan evaluation(std::int64_t samples, std::int64_t micro_batch,
                                            std::int64_t rank, std::int64_t ranks);

  [[nodiscard]] std::int64_t micro_batch() const { return micro_batch_; }
  // Batches of this rank per step (training) or per pass (evaluation).
  [[nodiscard]] std::int64_t count() const { return count_; }
  // Row `row` of batch `batch` (from 0, without end); sample -1 = padding.
  [[nodiscard]] SampleId at(std::int64_t batch, std::int64_t row) const;

 private:
  BatchPlan() = default;

  std::optional<Sampler> sampler_;  // training
  std::int64_t samples_ = 0;        // evaluation
  std::int64_t micro_batch_ = 0;
  std::int64_t rank_ = 0;
  std::int64_t ranks_ = 1;
  std::int64_t count_ = 0;
  std::int64_t first_step_ = 0;
  bool strided_ = false;
};

}  // namespace trireme
