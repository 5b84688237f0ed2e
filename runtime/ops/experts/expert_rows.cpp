// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/experts/expert_rows.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

TRIREME_KERNELS(order_slots, spread_rows, collect_rows, spread_values, collect_values,
                received_offsets);

namespace {

// One place per slot, in a tensor of at least as many rows.
void check_places(const Operands& check, std::string_view op, const Tensor& places,
                  std::string_view name, const Tensor& rows) {
  check.present("places", places);
  check.dtype("places", places, DType::i32);
  check.rank("places", places, 2);
  check.present(name, rows);
  TRIREME_EXPECTS(rows.shape.rank() >= 1 && rows.shape[0] >= places.count(),
                  "{}: {} has shape {}, expected at least {} rows, one per slot", op, name,
                  rows.shape.to_string(), places.count());
}

void check_rows(const Operands& check, std::string_view op, const Tensor& rows,
                std::string_view name, const Tensor& tokens, const Tensor& places) {
  check_places(check, op, places, "rows", rows);
  check.compute_dtype("rows", rows);
  check.rank("rows", rows, 2);
  check.is(name, tokens, rows.dtype, Shape{places.shape[0], rows.shape[1]});
  check.disjoint(name, tokens, "rows", rows);
}

void check_values(const Operands& check, std::string_view op, const Tensor& values, const Tensor& x,
                  const Tensor& places) {
  check_places(check, op, places, "values", values);
  check.dtype("values", values, DType::f32);
  check.is("x", x, DType::f32, places.shape);
  check.disjoint("x", x, "values", values);
}

// Of the rows that have a slot.
double bytes_of_slots(const Tensor& rows, const Tensor& places) {
  return static_cast<double>(places.count()) * static_cast<double>(rows.bytes()) /
         static_cast<double>(rows.shape[0]);
}

}  // namespace

void order_slots(Stream& stream, const Tensor& places, const Tensor& offsets, const Tensor& slots) {
  constexpr std::string_view op = "order_slots";
  const Operands check(op);
  check.present("slots", slots);
  check.dtype("slots", slots, DType::i32);
  check.rank("slots", slots, 2);
  check.is("places", places, DType::i32, slots.shape);
  check.disjoint("places", places, "slots", slots);
  check.present("offsets", offsets);
  check.dtype("offsets", offsets, DType::i32);
  TRIREME_EXPECTS(offsets.shape.rank() == 1 && offsets.shape[0] >= 2,
                  "{}: offsets has shape {}, expected one more than there are experts", op,
                  offsets.shape.to_string());
  TRIREME_DISPATCH(stream, order_slots, reads(slots).writes(places, offsets), places, offsets,
                   slots);
}

void spread_rows(Stream& stream, const Tensor& rows, const Tensor& x, const Tensor& places) {
  constexpr std::string_view op = "spread_rows";
  check_rows(Operands(op), op, rows, "x", x, places);
  TRIREME_DISPATCH(stream, spread_rows, reads(x, places).bytes(0, bytes_of_slots(rows, places)),
                   rows, x, places);
}

void collect_rows(Stream& stream, const Tensor& y, const Tensor& rows, const Tensor& places,
                  const Tensor& weights, const Tensor& residual) {
  constexpr std::string_view op = "collect_rows";
  const Operands check(op);
  check_rows(check, op, rows, "y", y, places);
  if (!weights.empty()) check.is("weights", weights, DType::f32, places.shape);
  if (!residual.empty()) {
    check.is("residual", residual, y.dtype, y.shape);
    check.same_or_disjoint("y", y, "residual", residual);
  }
  TRIREME_DISPATCH(
      stream, collect_rows,
      reads(places, weights, residual).bytes(bytes_of_slots(rows, places), 0).writes(y), y, rows,
      places, weights, residual);
}

void spread_values(Stream& stream, const Tensor& values, const Tensor& x, const Tensor& places) {
  constexpr std::string_view op = "spread_values";
  check_values(Operands(op), op, values, x, places);
  TRIREME_DISPATCH(stream, spread_values, reads(x, places).bytes(0, bytes_of_slots(values, places)),
                   values, x, places);
}

void collect_values(Stream& stream, const Tensor& x, const Tensor& values, const Tensor& places) {
  constexpr std::string_view op = "collect_values";
  check_values(Operands(op), op, values, x, places);
  TRIREME_DISPATCH(stream, collect_values,
                   reads(places).bytes(bytes_of_slots(values, places), 0).writes(x), x, values,
                   places);
}

void received_offsets(Stream& stream, const Tensor& offsets, const Tensor& counts,
                      const ReceivedRows& rows) {
  const Operands check("received_offsets");
  check.present("counts", counts);
  check.dtype("counts", counts, DType::i32);
  check.rank("counts", counts, 3);
  check.present("offsets", offsets);
  check.dtype("offsets", offsets, DType::i32);
  const std::int64_t sources = counts.shape[0];
  const std::int64_t experts = (offsets.count() - 1) / sources;
  TRIREME_EXPECTS(
      offsets.shape.rank() == 1 && offsets.count() == sources * experts + 1 && rows.first >= 0 &&
          rows.first + experts <= counts.shape[2] && sources % rows.tensor_ranks == 0,
      "received_offsets: offsets {} of counts {} from expert {} on, {} tensor ranks",
      offsets.shape.to_string(), counts.shape.to_string(), rows.first, rows.tensor_ranks);
  TRIREME_DISPATCH(stream, received_offsets, reads(counts).writes(offsets), offsets, counts, rows);
}

}  // namespace trireme::ops
