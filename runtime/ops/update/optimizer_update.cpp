// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/update/optimizer_update.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"
#include "runtime/ops/update/loss_sums.h"
#include "runtime/ops/update/optimizer_update_math.h"

namespace trireme::ops {

TRIREME_KERNELS(update, factored_moments, trust_ratios, exponential_average, clip_scale,
                update_loss_scale);

namespace {

void check_f32(const Operands& check, std::string_view name, const Tensor& tensor,
               std::int64_t count) {
  check.present(name, tensor);
  check.dtype(name, tensor, DType::f32);
  check.count(name, tensor, count);
}

}  // namespace

void update(Stream& stream, OptimizerKind kind, UpdatePart part, const UpdateTable& table,
            const Tensor& scalars, const UpdateOptions& options) {
  visit_step(kind, part, options, [&]<typename Step>(std::type_identity<Step> /*step*/) {
    constexpr StepNeeds needs = Step::needs;
    TRIREME_EXPECTS(!needs.first || table.has_first(), "{}: a first moment is absent", Step::name);
    TRIREME_EXPECTS(!needs.second || table.has_second(), "{}: a second moment is absent",
                    Step::name);
    TRIREME_EXPECTS(!needs.ratio || table.has_ratio(), "{}: a ratio is absent", Step::name);
    Operands(Step::name).is("scalars", scalars, DType::f32, Shape{StepScalars::count});
    // f32 of each element, the entries, and the copies in the compute dtype.
    const auto values = static_cast<double>(table.elements()) * sizeof(float);
    TRIREME_DISPATCH_AS(Step::name, stream, update,
                        reads(scalars).bytes(
                            values * Step::read + static_cast<double>(table.entries().size_bytes()),
                            values * (Step::state_count + 1) +
                                (Step::copied ? static_cast<double>(table.copied_bytes()) : 0.0)),
                        kind, part, table, scalars, options);
  });
}

void factored_moments(Stream& stream, const Tensor& state, const Tensor& roots,
                      const Tensor& totals, const Tensor& scalars,
                      std::span<const FactoredMatrix> matrices) {
  const Operands check("factored_moments");
  check_f32(check, "state", state, state.count());
  check.is("roots", roots, DType::f32, state.shape);
  check.is("totals", totals, DType::f64, state.shape);
  check.is("scalars", scalars, DType::f32, Shape{StepScalars::count});
  check.disjoint("state", state, "roots", roots);
  TRIREME_DISPATCH(stream, factored_moments,
                   reads(totals, scalars)
                       .updates(state)
                       .writes(roots)
                       .bytes(static_cast<double>(matrices.size_bytes()), 0),
                   state, roots, totals, scalars, matrices);
}

void trust_ratios(Stream& stream, const Tensor& ratios, const Tensor& squares,
                  const Tensor& scalars, const TrustOptions& options, const Tensor& counts) {
  const Operands check("trust_ratios");
  check.present("ratios", ratios);
  const std::int64_t tensors = ratios.shape[0];
  check.is("ratios", ratios, DType::f32, Shape{tensors, 2});
  check.is("squares", squares, DType::f64, Shape{tensors, 2});
  if (!counts.empty()) check.is("counts", counts, DType::f64, Shape{tensors});
  check.is("scalars", scalars, DType::f32, Shape{StepScalars::count});
  check.disjoint("ratios", ratios, "squares", squares);
  TRIREME_DISPATCH(stream, trust_ratios, reads(squares, scalars, counts).writes(ratios), ratios,
                   squares, scalars, options, counts);
}

void exponential_average(Stream& stream, const Tensor& average, const Tensor& parameter,
                         float decay, const Tensor& scalars) {
  const Operands check("exponential_average");
  check_f32(check, "parameter", parameter, parameter.count());
  check_f32(check, "average", average, parameter.count());
  check.disjoint("average", average, "parameter", parameter);
  TRIREME_EXPECTS(decay >= 0.0F && decay <= 1.0F, "exponential_average: decay {} is not in [0, 1]",
                  decay);
  if (!scalars.empty()) check.is("scalars", scalars, DType::f32, Shape{StepScalars::count});
  TRIREME_DISPATCH(stream, exponential_average, reads(parameter, scalars).updates(average), average,
                   parameter, decay, scalars);
}

void clip_scale(Stream& stream, const Tensor& scalars, const Tensor& norm, const Tensor& total,
                float clip, const GradientFactors& factors) {
  const Operands check("clip_scale");
  check.is("scalars", scalars, DType::f32, Shape{StepScalars::count});
  check.is("norm", norm, DType::f32, Shape{1});
  check.is("total", total, DType::f64, Shape{1});
  check.disjoint("norm", norm, "scalars", scalars);
  check.disjoint("norm", norm, "total", total);
  if (!factors.loss_scale.empty()) check.is("loss_scale", factors.loss_scale, DType::f32, Shape{1});
  if (!factors.sums.empty()) {
    const std::int64_t micro_batches = factors.sums.count() / LossSums::count;
    check.is("sums", factors.sums, DType::f64, Shape{micro_batches, LossSums::count});
  }
  TRIREME_EXPECTS(factors.targets >= 1, "clip_scale: {} targets", factors.targets);
  TRIREME_DISPATCH(stream, clip_scale,
                   reads(total, factors.sums, factors.loss_scale).writes(scalars, norm), scalars,
                   norm, total, clip, factors);
}

void update_loss_scale(Stream& stream, const Tensor& state, const Tensor& scalars,
                       const LossScaleOptions& options) {
  const Operands check("update_loss_scale");
  check.is("state", state, DType::f32, Shape{LossScaleState::count});
  check.is("scalars", scalars, DType::f32, Shape{StepScalars::count});
  check.disjoint("state", state, "scalars", scalars);
  TRIREME_EXPECTS(
      options.factor > 1.0F && options.minimum > 0.0F && options.growth_interval >= 1.0F,
      "update_loss_scale: factor {}, minimum {}, growth interval {}", options.factor,
      options.minimum, options.growth_interval);
  TRIREME_DISPATCH(stream, update_loss_scale, reads(scalars).updates(state), state, scalars,
                   options);
}

}  // namespace trireme::ops
