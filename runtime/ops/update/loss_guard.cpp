// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/update/loss_guard.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"
#include "runtime/ops/update/loss_sums.h"
#include "runtime/ops/update/noise_scale.h"
#include "runtime/ops/update/optimizer_update.h"

namespace trireme::ops {

TRIREME_KERNELS(guard_loss);

void guard_loss(Stream& stream, const Tensor& scalars, const Tensor& state, const Tensor& sums,
                const LossGuardOptions& options) {
  const Operands check("guard_loss");
  check.is("scalars", scalars, DType::f32, Shape{StepScalars::count});
  check.is("state", state, DType::f64, Shape{LossGuardState::count});
  const std::int64_t micro_batches = sums.count() / LossSums::count;
  check.is("sums", sums, DType::f64, Shape{micro_batches, LossSums::count});
  check.disjoint("state", state, "sums", sums);
  TRIREME_EXPECTS(options.zscore >= 0 && options.window >= 1, "guard_loss: z-score {}, window {}",
                  options.zscore, options.window);
  const SumsOrder& order = options.order;
  const bool known =
      order.turns >= 1 && order.of_rank >= 1 && order.context >= 1 && order.blocks >= 1;
  TRIREME_EXPECTS(
      known && micro_batches % (order.turns * order.of_rank * order.context * order.blocks) == 0,
      "guard_loss: {} rows of ranks with {} micro-batches in {} blocks, {} in turn, "
      "that {} ranks share",
      micro_batches, order.of_rank, order.blocks, order.turns, order.context);
  TRIREME_DISPATCH(stream, guard_loss, reads(sums).updates(state), scalars, state, sums, options);
}

TRIREME_KERNELS(estimate_noise);

void estimate_noise(Stream& stream, const Tensor& state, const Tensor& squares,
                    const NoiseOptions& options) {
  const Operands check("estimate_noise");
  check.is("state", state, DType::f64, Shape{NoiseState::count});
  check.is("squares", squares, DType::f64, Shape{2});
  check.disjoint("state", state, "squares", squares);
  if (!options.loss_scale.empty()) check.is("loss_scale", options.loss_scale, DType::f32, Shape{1});
  if (!options.sums.empty()) {
    const std::int64_t micro_batches = options.sums.count() / LossSums::count;
    check.is("sums", options.sums, DType::f64, Shape{micro_batches, LossSums::count});
  }
  TRIREME_EXPECTS(options.micro_batches >= 2 && options.small >= 1,
                  "estimate_noise: {} micro-batches of {} samples, expected two or more",
                  options.micro_batches, options.small);
  TRIREME_DISPATCH(stream, estimate_noise, reads(squares, options.sums).updates(state), state,
                   squares, options);
}

}  // namespace trireme::ops
