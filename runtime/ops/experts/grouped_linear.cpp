// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/experts/grouped_linear.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

TRIREME_KERNELS(grouped_forward, grouped_backward_input, grouped_backward_weight,
                grouped_backward_slots);

namespace {

void check_groups(const Operands& check, std::string_view op, const Tensor& offsets,
                  std::int64_t matrices) {
  check.present("offsets", offsets);
  check.dtype("offsets", offsets, DType::i32);
  TRIREME_EXPECTS(
      offsets.shape.rank() == 1 && offsets.shape[0] >= 2 && (offsets.shape[0] - 1) % matrices == 0,
      "{}: offsets has shape {}, expected one more than a multiple of {} matrices", op,
      offsets.shape.to_string(), matrices);
}

// x(R, I) and y(R, O) of matrices (X, O, I).
void check_operands(const Operands& check, std::string_view op, std::string_view w_name,
                    const Tensor& w, std::string_view x_name, const Tensor& x,
                    std::string_view y_name, const Tensor& y, const Tensor& offsets) {
  check.present(w_name, w);
  check.rank(w_name, w, 3);
  check.compute_dtype(x_name, x);
  check.rank(x_name, x, 2);
  check.is(x_name, x, x.dtype, Shape{x.shape[0], w.shape[2]});
  check.is(y_name, y, x.dtype, Shape{x.shape[0], w.shape[1]});
  check.disjoint(x_name, x, y_name, y);
  check.disjoint(w_name, w, x_name, x);
  check.disjoint(w_name, w, y_name, y);
  check_groups(check, op, offsets, w.shape[0]);
}

}  // namespace

void grouped_forward(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& w,
                     const Tensor& bias, const Tensor& offsets, F32Products f32) {
  constexpr std::string_view op = "grouped_forward";
  const Operands check(op);
  check_operands(check, op, "w", w, "x", x, "y", y, offsets);
  check.dtype("w", w, x.dtype);
  if (!bias.empty()) check.is("bias", bias, DType::f32, Shape{w.shape[0], w.shape[1]});
  TRIREME_DISPATCH(stream, grouped_forward,
                   reads(x, w, bias, offsets)
                       .writes(y)
                       .multiplies_groups(offsets.count() - 1, x.shape[0], w.shape[1], w.shape[2]),
                   y, x, w, bias, offsets, f32);
}

void grouped_backward_input(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& w,
                            const Tensor& offsets, F32Products f32) {
  constexpr std::string_view op = "grouped_backward_input";
  const Operands check(op);
  check_operands(check, op, "w", w, "dx", dx, "dy", dy, offsets);
  check.dtype("w", w, dx.dtype);
  TRIREME_DISPATCH(stream, grouped_backward_input,
                   reads(dy, w, offsets)
                       .writes(dx)
                       .multiplies_groups(offsets.count() - 1, dx.shape[0], w.shape[1], w.shape[2]),
                   dx, dy, w, offsets, f32);
}

void grouped_backward_weight(Stream& stream, const Tensor& dw, const Tensor& db, const Tensor& dy,
                             const Tensor& x, const Tensor& offsets, std::int64_t first,
                             std::int64_t count, F32Products f32) {
  constexpr std::string_view op = "grouped_backward_weight";
  const Operands check(op);
  check_operands(check, op, "dw", dw, "x", x, "dy", dy, offsets);
  check.dtype("dw", dw, DType::f32);
  if (!db.empty()) {
    check.is("db", db, DType::f32, Shape{dw.shape[0], dw.shape[1]});
    check.disjoint("db", db, "dw", dw);
  }
  TRIREME_EXPECTS(
      first >= 0 && count >= 0 && first + count < offsets.shape[0] && count % dw.shape[0] == 0,
      "{}: {} groups from {} on, expected a multiple of {} matrices within {} groups", op, count,
      first, dw.shape[0], offsets.shape[0] - 1);
  if (count == 0) return;
  // As if all groups had as many rows.
  const double share = static_cast<double>(count) / static_cast<double>(offsets.count() - 1);
  const auto rows = static_cast<std::int64_t>(share * static_cast<double>(x.shape[0]));
  TRIREME_DISPATCH(stream, grouped_backward_weight,
                   reads(offsets)
                       .bytes(share * static_cast<double>(dy.bytes() + x.bytes()), 0)
                       .updates(dw, db)
                       .multiplies_groups(count, rows, dw.shape[1], dw.shape[2])
                       .of_parameters(),
                   dw, db, dy, x, offsets, first, count, f32);
}

void grouped_backward_slots(Stream& stream, const Tensor& dweights, const Tensor& dx,
                            const Tensor& dy, const Tensor& x, const Tensor& weights,
                            const Tensor& bias, const Tensor& offsets) {
  constexpr std::string_view op = "grouped_backward_slots";
  const Operands check(op);
  check.compute_dtype("x", x);
  check.rank("x", x, 2);
  check.is("dx", dx, x.dtype, x.shape);
  check.present("dy", dy);
  check.rank("dy", dy, 2);
  check.is("dy", dy, x.dtype, Shape{x.shape[0], dy.shape[1]});
  check.is("weights", weights, DType::f32, Shape{x.shape[0]});
  check.is("dweights", dweights, DType::f32, Shape{x.shape[0]});
  check.disjoint("dx", dx, "x", x);
  check.disjoint("dx", dx, "dy", dy);
  check.disjoint("dy", dy, "x", x);
  check.same_or_disjoint("dweights", dweights, "weights", weights);
  if (!bias.empty()) {
    check.rank("bias", bias, 2);
    check.is("bias", bias, DType::f32, Shape{bias.shape[0], dy.shape[1]});
  }
  check_groups(check, op, offsets, bias.empty() ? 1 : bias.shape[0]);
  TRIREME_DISPATCH(stream, grouped_backward_slots,
                   reads(x, weights, bias, offsets).updates(dx, dy).writes(dweights), dweights, dx,
                   dy, x, weights, bias, offsets);
}

}  // namespace trireme::ops
