// SPDX-License-Identifier: Apache-2.0
// Optimizers over the flat arenas of a ParamStore, behind a list of gradient transforms. All read
// their scalars from device memory.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/config/optimizer_config.h"
#include "runtime/nn/param_store.h"
#include "runtime/ops/update/optimizer_update.h"
#include "runtime/optim/factored_moments.h"
#include "runtime/optim/gradient_transform.h"
#include "runtime/optim/model_groups.h"
#include "runtime/optim/muon.h"
#include "runtime/optim/trust_ratios.h"

namespace trireme {

struct OptimizerOptions {
  OptimizerConfig config{};
  const ModelGroups& groups = ModelGroups::one_rank();
  // Norms by exact integer sums: the same gradients give the same bits in any layout
  // (ops/exact_sum.h).
  bool exact = false;
  std::span<const ParamSpec> chain{};  // of all pipeline stages; empty: one
  // What happens to the gradients before each update, in this order.
  std::vector<GradientTransform*> transforms{};
};

// Updates the parameters that this rank owns: all, or with ZeRO its slices.
class Optimizer {
 public:
  // `params` must be allocated for training and outlive the optimizer, as must groups and
  // transforms.
  Optimizer(Device& device, ParamStore& params, const OptimizerOptions& options);

  // Stages on the host the inputs of step `step`; call it before each step(). At most one earlier
  // step may still run.
  void prepare(std::int64_t step, double learning_rate);
  // Enqueues the transforms, then the update of every run that this rank owns, and running
  // statistics. May overwrite gradients. A gradient scale of 0 leaves parameters and state
  // unchanged. Sets the scalars of `step`.
  void step(Stream& stream, GradientStep step);

  [[nodiscard]] std::size_t state_bytes() const {
    return first_.bytes() + second_.bytes() + factored_moments().bytes();
  }
  // For the whole model, equal on every rank; empty if the optimizer has none.
  [[nodiscard]] Tensor factored_moments() const {
    return factored_ ? factored_->state() : Tensor{};
  }
  // Moments of this rank's slices, indexed like Bucket::owned; empty if the optimizer has none.
  [[nodiscard]] Tensor first_moments() const { return moments(first_); }
  [[nodiscard]] Tensor second_moments() const { return moments(second_); }

 private:
  // (StepScalars) f32 on the host; steps alternate between two, because the copy happens later.
  [[nodiscard]] float* staged(std::int64_t step) const;
  [[nodiscard]] Tensor scalars() const;
  // The tensors of a run of weights or statistics; moments and compute copies may be absent.
  [[nodiscard]] ops::UpdateRun tensors_of(const OwnedRun& run) const;
  void make_tables(Stream& stream, bool exact);
  void update(Stream& stream);
  void measure_tensors(Stream& stream);  // for trust ratios
  [[nodiscard]] Tensor moments(const Buffer& buffer) const;

  Device& device_;
  ParamStore& params_;
  OptimizerConfig config_;
  const OptimizerTraits& traits_;
  std::vector<GradientTransform*> transforms_;
  const ModelGroups& groups_;
  std::optional<FactoredMoments> factored_;
  std::optional<TrustRatios> ratios_;
  std::optional<Muon> muon_;
  Buffer first_, second_;              // if the optimizer has them
  Buffer scalars_, scalars_host_;      // StepScalars, its staging copy
  ops::UpdateTable weights_, hidden_;  // Muon's hidden matrices are not in the first
  std::vector<OwnedRun> statistics_;
};

}  // namespace trireme
