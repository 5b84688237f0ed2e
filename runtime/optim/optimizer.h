// SPDX-License-Identifier: Apache-2.0
// Optimizers over the flat arenas of a ParamStore. Clipping and the update read their scalars from
// device memory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/comm/timing/stall_clock.h"
#include "runtime/config/optimizer_config.h"
#include "runtime/nn/param_store.h"
#include "runtime/ops/update/optimizer_update.h"
#include "runtime/optim/factored_moments.h"
#include "runtime/optim/loss_scaler.h"
#include "runtime/optim/muon.h"
#include "runtime/optim/trust_ratios.h"

namespace trireme {

// The other ranks that an optimizer has to do with; null: this one has everything.
struct OptimizerRanks {
  // Norms in integers instead of rounded sums: the same bits for the same gradients on any layout
  // (ops/exact_sum.h).
  bool exact = false;
  Communicator* slices = nullptr;  // have slices of what this rank has a slice of (ZeRO)
  Communicator* tensor = nullptr;  // have other tensor blocks of the same parameters
  Communicator* model = nullptr;   // those, and the other parameters
  Stream* comm = nullptr;
  StallClock* stalls = nullptr;  // times waits for them
  // The parameters of all pipeline stages; empty: there is one stage.
  std::span<const ParamSpec> chain{};
};

// Updates what this rank owns of the parameters: everything, or with ZeRO its slices.
class Optimizer {
 public:
  // The learning rate comes with prepare(). `params` must be allocated for training and outlive the
  // optimizer, as must the groups.
  Optimizer(Device& device, ParamStore& params, const OptimizerConfig& config, float clip_norm,
            const OptimizerRanks& ranks = {}, std::optional<ops::LossScaleOptions> loss_scale = {});

  // Leaves on the host what step `step` will read; before each step(). At most one earlier step may
  // still run.
  void prepare(std::int64_t step, double learning_rate);
  // Both halves of a step. Reads partial sum 0 of the gradients.
  void step(Stream& stream, std::int64_t step);
  // Enqueues: gradient norm over all weights, clip factor, loss scale. `step` counts from 0.
  // `sums` of the step's loss (ops::LossSums) say how many of its `targets` count; absent: all.
  void measure(Stream& stream, std::int64_t step, const Tensor& sums = {}, double targets = 1);
  // Enqueues: update of every own run, running statistics. Gradients may be left as something else.
  // A step whose gradient norm is not
  // finite, or whose scalars say so, leaves parameters and state as they were.
  void update(Stream& stream);

  // Null where the loss is not scaled.
  [[nodiscard]] const LossScaler* loss_scaler() const { return scaler_ ? &*scaler_ : nullptr; }
  // ops::StepScalars on the device: between the halves, a gradient scale of 0 skips the update.
  [[nodiscard]] Tensor scalars() const;
  // (1) f32 on the device: the norm of the last step before clipping, without the loss scale.
  [[nodiscard]] Tensor gradient_norm() const;
  [[nodiscard]] std::size_t state_bytes() const {
    return first_.bytes() + second_.bytes() + factored_moments().bytes();
  }
  // Of the whole model, on every rank alike; empty where the optimizer has none.
  [[nodiscard]] Tensor factored_moments() const {
    return factored_ ? factored_->state() : Tensor{};
  }
  // Moments of the own slices, indexed as Bucket::owned; empty where the optimizer has none.
  [[nodiscard]] Tensor first_moments() const { return moments(first_); }
  [[nodiscard]] Tensor second_moments() const { return moments(second_); }

 private:
  // (StepScalars) f32 on the host; steps take turns on two, for the copy happens later.
  [[nodiscard]] float* staged(std::int64_t step) const;
  // What belongs to a run of weights or statistics; moments and compute copies may be absent.
  [[nodiscard]] ops::UpdateRun tensors_of(const OwnedRun& run) const;
  void make_tables(Stream& stream);
  void sum_squares(Stream& stream);
  // A step's sums over all ranks, of what each has.
  void add_up(Stream& stream, const Tensor& sums) const;
  void measure_tensors(Stream& stream);  // for trust ratios
  [[nodiscard]] Tensor moments(const Buffer& buffer) const;

  Device& device_;
  ParamStore& params_;
  OptimizerConfig config_;
  const OptimizerTraits& traits_;
  float clip_norm_;
  bool exact_norms_;
  std::optional<TensorGroup> slices_, tensor_, model_;
  std::optional<LossScaler> scaler_;
  std::optional<FactoredMoments> factored_;
  std::optional<TrustRatios> ratios_;
  std::optional<Muon> muon_;
  Buffer first_, second_;                       // as far as the optimizer keeps moments
  Buffer scalars_, scalars_host_, norm_, sum_;  // StepScalars, its staging copy, (1) f32, (1) f64
  Buffer exact_;                                // ops::exact_sum_words u64
  ops::UpdateTable weights_, hidden_;           // Muon's hidden matrices are not in the first
  ops::SquaresTable counted_;                   // gradients in the norm
  std::vector<OwnedRun> statistics_;
};

}  // namespace trireme
