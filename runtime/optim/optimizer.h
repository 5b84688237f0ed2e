// SPDX-License-Identifier: Apache-2.0
// Optimizers over the flat arenas of a ParamStore. Clipping and the update read their scalars from
// device memory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/comm/process_mesh.h"
#include "runtime/comm/timing/stall_clock.h"
#include "runtime/config/optimizer_config.h"
#include "runtime/device/device.h"
#include "runtime/nn/param_store.h"
#include "runtime/ops/update/optimizer_update.h"
#include "runtime/optim/factored_moments.h"
#include "runtime/optim/muon.h"
#include "runtime/optim/trust_ratios.h"

namespace trireme {

// Dynamic loss scale: a factor keeps gradients from underflowing in f16; it falls when a step
// overflows and grows after many that did not (Micikevicius et al., "Mixed precision training",
// ICLR 2018). It is on the device, and every rank sees the same gradient norm, so no host and no
// collective decides about it.
class LossScaler {
 public:
  LossScaler(Device& device, const ops::LossScaleOptions& options);

  // (1) f32 on the device: multiplies the loss's gradient; clip_scale divides by it.
  [[nodiscard]] Tensor scale() const { return state().range(ops::LossScaleState::scale, 1); }
  // LossScaleState on the device: all that a checkpoint must store.
  [[nodiscard]] Tensor state() const;
  [[nodiscard]] const ops::LossScaleOptions& options() const { return options_; }
  // Enqueues the change that the step's scalars (ops::StepScalars, after clip_scale) require.
  void update(Stream& stream, const Tensor& scalars);

 private:
  ops::LossScaleOptions options_;
  Buffer state_;
};

// The other ranks that an optimizer communicates with; null: none.
struct OptimizerRanks {
  // Norms by exact integer sums: the same gradients give the same bits in any layout
  // (ops/exact_sum.h).
  bool exact = false;
  Communicator* slices = nullptr;  // ranks with other slices of the same buckets (ZeRO)
  Communicator* tensor = nullptr;  // ranks with other tensor blocks of the same parameters
  Communicator* model = nullptr;   // those, and ranks with other parameters
  Stream* comm = nullptr;
  StallClock* stalls = nullptr;  // times waits for them
  // The parameters of all pipeline stages; empty: a single stage.
  std::span<const ParamSpec> chain{};
};

// Those of a mesh: together the ranks that hold every parameter or slice of one once.
[[nodiscard]] OptimizerRanks optimizer_ranks(const ProcessMesh& mesh);

// Updates the parameters that this rank owns: all, or with ZeRO its slices.
class Optimizer {
 public:
  // prepare() sets the learning rate. `params` must be allocated for training and outlive the
  // optimizer, as must the groups.
  Optimizer(Device& device, ParamStore& params, const OptimizerConfig& config, float clip_norm,
            const OptimizerRanks& ranks = {}, std::optional<ops::LossScaleOptions> loss_scale = {});

  // Stages on the host the inputs of step `step`; call it before each step(). At most one earlier
  // step may still run.
  void prepare(std::int64_t step, double learning_rate);
  // measure() and update(). Reads partial sum 0 of the gradients.
  void step(Stream& stream, std::int64_t step);
  // Enqueues: gradient norm over all weights, clip factor, loss scale. `step` counts from 0. `sums`
  // of the step's loss (ops::LossSums) have the number of counted `targets`; absent: all.
  void measure(Stream& stream, std::int64_t step, const Tensor& sums = {}, double targets = 1);
  // Enqueues: update of every run that this rank owns, running statistics. May overwrite gradients.
  // A step with a non-finite gradient norm, or with scalars that skip it, leaves parameters and
  // state unchanged.
  void update(Stream& stream);

  // Null if the loss is not scaled.
  [[nodiscard]] const LossScaler* loss_scaler() const { return scaler_ ? &*scaler_ : nullptr; }
  // ops::StepScalars on the device; a gradient scale of 0, set before update(), skips it.
  [[nodiscard]] Tensor scalars() const;
  // (1) f32 on the device: the last step's norm before clipping, without the loss scale.
  [[nodiscard]] Tensor gradient_norm() const;
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
  // The tensors of a run of weights or statistics; moments and compute copies may be absent.
  [[nodiscard]] ops::UpdateRun tensors_of(const OwnedRun& run) const;
  void make_tables(Stream& stream);
  void sum_squares(Stream& stream);
  // Adds a step's partial sums over all ranks.
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
  Buffer first_, second_;                       // if the optimizer has them
  Buffer scalars_, scalars_host_, norm_, sum_;  // StepScalars, its staging copy, (1) f32, (1) f64
  Buffer exact_;                                // ops::exact_sum_words u64
  ops::UpdateTable weights_, hidden_;           // Muon's hidden matrices are not in the first
  ops::SquaresTable counted_;                   // gradients in the norm
  std::vector<OwnedRun> statistics_;
};

}  // namespace trireme
