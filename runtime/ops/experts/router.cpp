// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/experts/router.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"
#include "runtime/ops/update/optimizer_update.h"

namespace trireme::ops {

TRIREME_KERNELS(router_logits, router_backward_input, router_backward_weight, route, expert_counts,
                add_counts, balance_pull, route_backward, balance_bias);

namespace {

// logits(N, E), x(N, C), w(E, C).
void check_linear(const Operands& check, std::string_view logits_name, const Tensor& logits,
                  std::string_view x_name, const Tensor& x, std::string_view w_name,
                  const Tensor& w) {
  check.compute_dtype(x_name, x);
  check.rank(x_name, x, 2);
  check.present(w_name, w);
  check.rank(w_name, w, 2);
  check.is(w_name, w, DType::f32, Shape{w.shape[0], x.shape[1]});
  check.is(logits_name, logits, DType::f32, Shape{x.shape[0], w.shape[0]});
  check.disjoint(x_name, x, logits_name, logits);
  check.disjoint(x_name, x, w_name, w);
  check.disjoint(logits_name, logits, w_name, w);
}

void check_options(std::string_view op, std::int64_t experts, const RouterOptions& options) {
  TRIREME_EXPECTS(experts >= 1 && experts <= most_experts, "{}: {} experts, of {} at most", op,
                  experts, most_experts);
  TRIREME_EXPECTS(options.groups >= 1 && experts % options.groups == 0,
                  "{}: {} experts in {} groups, expected equal ones", op, experts, options.groups);
  TRIREME_EXPECTS(options.groups_kept >= 1 && options.groups_kept <= options.groups,
                  "{}: {} of {} groups kept", op, options.groups_kept, options.groups);
  const std::int64_t eligible = experts / options.groups * options.groups_kept;
  TRIREME_EXPECTS(
      options.slots >= 1 && options.slots <= most_slots && options.slots <= eligible,
      "{}: {} slots of a token, expected 1 or more, of {} at most and of the {} experts that can "
      "be chosen",
      op, options.slots, most_slots, eligible);
}

// pull or counts(S, E) of N tokens in S equal runs.
void check_runs(std::string_view op, std::string_view name, const Tensor& runs,
                std::int64_t tokens) {
  TRIREME_EXPECTS(runs.shape.rank() == 2 && runs.shape[0] >= 1 && tokens % runs.shape[0] == 0,
                  "{}: {} has shape {}, but {} tokens are no multiple of its rows", op, name,
                  runs.shape.to_string(), tokens);
}

}  // namespace

void router_logits(Stream& stream, const Tensor& logits, const Tensor& x, const Tensor& w,
                   const Tensor& bias) {
  const Operands check("router_logits");
  check_linear(check, "logits", logits, "x", x, "w", w);
  if (!bias.empty()) check.is("bias", bias, DType::f32, Shape{w.shape[0]});
  TRIREME_DISPATCH(stream, router_logits,
                   reads(x, w, bias)
                       .writes(logits)
                       .multiplies(x.shape[0], w.shape[0], w.shape[1], WorkRate::matmul_fp32),
                   logits, x, w, bias);
}

void router_backward_input(Stream& stream, const Tensor& dx, const Tensor& dlogits,
                           const Tensor& w) {
  check_linear(Operands("router_backward_input"), "dlogits", dlogits, "dx", dx, "w", w);
  TRIREME_DISPATCH(stream, router_backward_input,
                   reads(dlogits, w)
                       .updates(dx)
                       .multiplies(dx.shape[0], w.shape[0], w.shape[1], WorkRate::matmul_fp32),
                   dx, dlogits, w);
}

void router_backward_weight(Stream& stream, const Tensor& dw, const Tensor& db,
                            const Tensor& dlogits, const Tensor& x) {
  const Operands check("router_backward_weight");
  check_linear(check, "dlogits", dlogits, "x", x, "dw", dw);
  if (!db.empty()) {
    check.is("db", db, DType::f32, Shape{dw.shape[0]});
    check.disjoint("db", db, "dw", dw);
    check.disjoint("db", db, "dlogits", dlogits);
  }
  TRIREME_DISPATCH(stream, router_backward_weight,
                   reads(dlogits, x)
                       .updates(dw, db)
                       .multiplies(x.shape[0], dw.shape[0], dw.shape[1], WorkRate::matmul_fp32)
                       .of_parameters(),
                   dw, db, dlogits, x);
}

void route(Stream& stream, const Tensor& slots, const Tensor& weights, const Tensor& logits,
           const Tensor& choice_bias, const RouterOptions& options) {
  constexpr std::string_view op = "route";
  const Operands check(op);
  check.present("logits", logits);
  check.dtype("logits", logits, DType::f32);
  check.rank("logits", logits, 2);
  check_options(op, logits.shape[1], options);
  const Shape per_slot{logits.shape[0], options.slots};
  check.is("slots", slots, DType::i32, per_slot);
  check.is("weights", weights, DType::f32, per_slot);
  if (!choice_bias.empty()) {
    check.is("choice_bias", choice_bias, DType::f32, Shape{logits.shape[1]});
  }
  check.disjoint("weights", weights, "logits", logits);
  TRIREME_DISPATCH(stream, route, reads(logits, choice_bias).writes(slots, weights), slots, weights,
                   logits, choice_bias, options);
}

void expert_counts(Stream& stream, const Tensor& counts, const Tensor& slots,
                   const std::int32_t* starts) {
  constexpr std::string_view op = "expert_counts";
  const Operands check(op);
  check.present("slots", slots);
  check.dtype("slots", slots, DType::i32);
  check.rank("slots", slots, 2);
  check.present("counts", counts);
  check.dtype("counts", counts, DType::i32);
  check.rank("counts", counts, 2);
  TRIREME_EXPECTS(counts.shape[1] <= most_experts, "{}: {} experts, of {} at most", op,
                  counts.shape[1], most_experts);
  TRIREME_DISPATCH(stream, expert_counts, reads(slots).writes(counts), counts, slots, starts);
}

void add_counts(Stream& stream, const Tensor& sums, const Tensor& counts) {
  const Operands check("add_counts");
  check.present("counts", counts);
  check.dtype("counts", counts, DType::i32);
  check.rank("counts", counts, 2);
  check.is("sums", sums, DType::f32, Shape{counts.shape[1]});
  TRIREME_DISPATCH(stream, add_counts, reads(counts).updates(sums), sums, counts);
}

void balance_pull(Stream& stream, const Tensor& pull, const Tensor& counts, const Tensor& load,
                  const BalanceLoss& loss) {
  constexpr std::string_view op = "balance_pull";
  const Operands check(op);
  check.present("counts", counts);
  check.dtype("counts", counts, DType::i32);
  check.rank("counts", counts, 2);
  check.is("pull", pull, DType::f32, counts.shape);
  check.disjoint("pull", pull, "counts", counts);
  TRIREME_EXPECTS(!load.empty() || loss.batch == 0,
                  "{}: the loss over a batch (coefficient {}) needs its load", op, loss.batch);
  if (!load.empty()) check.is("load", load, DType::f32, Shape{counts.shape[1]});
  TRIREME_DISPATCH(stream, balance_pull, reads(counts, load).writes(pull), pull, counts, load,
                   loss);
}

void route_backward(Stream& stream, const Tensor& dlogits, const Tensor& dweights,
                    const Tensor& slots, const Tensor& logits, const Tensor& pull,
                    const RouterOptions& options, const RouterLoss& loss) {
  constexpr std::string_view op = "route_backward";
  const Operands check(op);
  check.present("logits", logits);
  check.dtype("logits", logits, DType::f32);
  check.rank("logits", logits, 2);
  check_options(op, logits.shape[1], options);
  const Shape per_slot{logits.shape[0], options.slots};
  check.is("dlogits", dlogits, DType::f32, logits.shape);
  check.disjoint("dlogits", dlogits, "logits", logits);
  check.is("slots", slots, DType::i32, per_slot);
  check.is("dweights", dweights, DType::f32, per_slot);
  if (!pull.empty()) {
    check_runs(op, "pull", pull, logits.shape[0]);
    check.is("pull", pull, DType::f32, Shape{pull.shape[0], logits.shape[1]});
  }
  TRIREME_DISPATCH(stream, route_backward,
                   reads(dweights, slots, logits, pull)
                       .bytes(loss.loss_scale == nullptr ? 0 : sizeof(float), 0)
                       .bytes(loss.totals == nullptr ? 0 : 2 * sizeof(double), 0)
                       .writes(dlogits),
                   dlogits, dweights, slots, logits, pull, options, loss);
}

void balance_bias(Stream& stream, const Tensor& bias, const Tensor& counts, float rate,
                  const Tensor& scalars) {
  const Operands check("balance_bias");
  check.present("bias", bias);
  check.rank("bias", bias, 1);
  check.is("bias", bias, DType::f32, bias.shape);
  check.is("counts", counts, DType::f32, bias.shape);
  check.disjoint("bias", bias, "counts", counts);
  if (!scalars.empty()) check.is("scalars", scalars, DType::f32, Shape{StepScalars::count});
  TRIREME_DISPATCH(stream, balance_bias, reads(counts, scalars).updates(bias), bias, counts, rate,
                   scalars);
}

}  // namespace trireme::ops
