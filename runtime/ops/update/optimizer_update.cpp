// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/update/optimizer_update.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"
#include "runtime/ops/update/loss_sums.h"

namespace trireme::ops {

TRIREME_KERNEL(adamw);
TRIREME_KERNEL(lion);
TRIREME_KERNEL(sgd);
TRIREME_KERNEL(lamb_direction);
TRIREME_KERNEL(lamb);
TRIREME_KERNEL(lars);
TRIREME_KERNEL(muon_direction);
TRIREME_KERNEL(muon);
TRIREME_KERNEL(trust_ratios);
TRIREME_KERNEL(exponential_average);
TRIREME_KERNEL(accumulate_squares);
TRIREME_KERNEL(clip_scale);
TRIREME_KERNEL(update_loss_scale);

namespace {

void check_f32(const Operands& check, std::string_view name, const Tensor& tensor,
               std::int64_t count) {
  check.present(name, tensor);
  check.dtype(name, tensor, DType::f32);
  check.count(name, tensor, count);
}

// The operands that all optimizers share.
void check_update(const Operands& check, const Tensor& parameter, const Tensor& compute,
                  const Tensor& gradient, const Tensor& scalars) {
  const std::int64_t n = parameter.count();
  check_f32(check, "parameter", parameter, n);
  check_f32(check, "gradient", gradient, n);
  check.is("scalars", scalars, DType::f32, Shape{StepScalars::count});
  check.disjoint("parameter", parameter, "gradient", gradient);
  if (compute.empty()) return;
  check.compute_dtype("compute", compute);
  check.count("compute", compute, n);
  check.disjoint("compute", compute, "parameter", parameter);
  check.disjoint("compute", compute, "gradient", gradient);
}

void check_moment(const Operands& check, std::string_view name, const Tensor& moment,
                  const Tensor& parameter, const Tensor& compute, const Tensor& gradient) {
  check_f32(check, name, moment, parameter.count());
  check.disjoint(name, moment, "parameter", parameter);
  check.disjoint(name, moment, "gradient", gradient);
  check.disjoint(name, moment, "compute", compute);
}

}  // namespace

void adamw(Stream& stream, const Tensor& parameter, const Tensor& compute, const Tensor& m,
           const Tensor& v, const Tensor& gradient, const Tensor& scalars,
           const AdamWOptions& options) {
  const Operands check("adamw");
  check_update(check, parameter, compute, gradient, scalars);
  check_moment(check, "m", m, parameter, compute, gradient);
  check_moment(check, "v", v, parameter, compute, gradient);
  check.disjoint("m", m, "v", v);
  TRIREME_DISPATCH(stream, adamw, reads(gradient, scalars).updates(parameter, m, v).writes(compute),
                   parameter, compute, m, v, gradient, scalars, options);
}

void lion(Stream& stream, const Tensor& parameter, const Tensor& compute, const Tensor& m,
          const Tensor& gradient, const Tensor& scalars, const LionOptions& options) {
  const Operands check("lion");
  check_update(check, parameter, compute, gradient, scalars);
  check_moment(check, "m", m, parameter, compute, gradient);
  TRIREME_DISPATCH(stream, lion, reads(gradient, scalars).updates(parameter, m).writes(compute),
                   parameter, compute, m, gradient, scalars, options);
}

void sgd(Stream& stream, const Tensor& parameter, const Tensor& compute, const Tensor& buffer,
         const Tensor& gradient, const Tensor& scalars, const SgdOptions& options) {
  const Operands check("sgd");
  check_update(check, parameter, compute, gradient, scalars);
  if (options.momentum != 0.0F || !buffer.empty())
    check_moment(check, "buffer", buffer, parameter, compute, gradient);
  TRIREME_DISPATCH(stream, sgd, reads(gradient, scalars).updates(parameter, buffer).writes(compute),
                   parameter, compute, buffer, gradient, scalars, options);
}

void lamb_direction(Stream& stream, const Tensor& gradient, const Tensor& m, const Tensor& v,
                    const Tensor& parameter, const Tensor& scalars, const LambOptions& options) {
  const Operands check("lamb_direction");
  check_update(check, parameter, {}, gradient, scalars);
  check_moment(check, "m", m, parameter, {}, gradient);
  check_moment(check, "v", v, parameter, {}, gradient);
  check.disjoint("m", m, "v", v);
  TRIREME_DISPATCH(stream, lamb_direction, reads(parameter, scalars).updates(gradient, m, v),
                   gradient, m, v, parameter, scalars, options);
}

void lamb(Stream& stream, const Tensor& parameter, const Tensor& compute, const Tensor& direction,
          const Tensor& ratio, const Tensor& scalars) {
  const Operands check("lamb");
  check_update(check, parameter, compute, direction, scalars);
  check.is("ratio", ratio, DType::f32, Shape{1});
  TRIREME_DISPATCH(stream, lamb,
                   reads(direction, ratio, scalars).updates(parameter).writes(compute), parameter,
                   compute, direction, ratio, scalars);
}

void lars(Stream& stream, const Tensor& parameter, const Tensor& compute, const Tensor& buffer,
          const Tensor& gradient, const Tensor& ratio, const Tensor& scalars,
          const LarsOptions& options) {
  const Operands check("lars");
  check_update(check, parameter, compute, gradient, scalars);
  check_moment(check, "buffer", buffer, parameter, compute, gradient);
  check.is("ratio", ratio, DType::f32, Shape{1});
  TRIREME_DISPATCH(stream, lars,
                   reads(gradient, ratio, scalars).updates(parameter, buffer).writes(compute),
                   parameter, compute, buffer, gradient, ratio, scalars, options);
}

void muon_direction(Stream& stream, const Tensor& gradient, const Tensor& buffer,
                    const Tensor& scalars, const MuonOptions& options) {
  const Operands check("muon_direction");
  check_update(check, buffer, {}, gradient, scalars);
  TRIREME_DISPATCH(stream, muon_direction, reads(scalars).updates(gradient, buffer), gradient,
                   buffer, scalars, options);
}

void muon(Stream& stream, const Tensor& parameter, const Tensor& compute, const Tensor& direction,
          const Tensor& scalars, const MuonOptions& options) {
  const Operands check("muon");
  check_update(check, parameter, compute, direction, scalars);
  TRIREME_DISPATCH(stream, muon, reads(direction, scalars).updates(parameter).writes(compute),
                   parameter, compute, direction, scalars, options);
}

void trust_ratios(Stream& stream, const Tensor& ratios, const Tensor& squares,
                  const Tensor& scalars, const TrustOptions& options) {
  const Operands check("trust_ratios");
  check_f32(check, "ratios", ratios, ratios.count());
  check.is("squares", squares, DType::f64, Shape{ratios.count(), 2});
  check.is("scalars", scalars, DType::f32, Shape{StepScalars::count});
  check.disjoint("ratios", ratios, "squares", squares);
  TRIREME_DISPATCH(stream, trust_ratios, reads(squares, scalars).writes(ratios), ratios, squares,
                   scalars, options);
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

void accumulate_squares(Stream& stream, const Tensor& total, const Tensor& x) {
  const Operands check("accumulate_squares");
  check.reduction("total", total, DType::f64, x);
  TRIREME_DISPATCH(stream, accumulate_squares, reads(x).updates(total), total, x);
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
