// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/loss/embedding.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

TRIREME_KERNELS(embedding_forward, embedding_backward, embedding_partial_forward, add_positions,
                add_positions_backward, embedding_partial_backward);

namespace {

void check_tokens(const Operands& check, const Tensor& tokens, const Tensor& values) {
  check.present("tokens", tokens);
  check.rank("tokens", tokens, 2);
  check.dtype("tokens", tokens, DType::i32);
  check.rank("y", values, 3);
  check.shape("tokens", tokens, Shape{values.shape[0], values.shape[1]});
}

// (rows, C) with one row a position at least.
void check_positions(const Operands& check, std::string_view name, const Tensor& table,
                     const Tensor& values, const RowRuns& runs = {}) {
  check.rank(name, table, 2);
  const std::int64_t end = runs.end(values.shape[1]);
  TRIREME_EXPECTS(table.shape[0] >= end && table.shape[1] == values.shape[2],
                  "embedding: {} has shape {}, too small for values of shape {} at {} positions",
                  name, table.shape.to_string(), values.shape.to_string(), end);
}

void check_starts(const Operands& check, const Tensor& starts, const Tensor& values) {
  if (starts.empty()) return;
  check.is("document_starts", starts, DType::i32, Shape{values.shape[0], values.shape[1]});
}

void check_token_table(const Operands& check, std::string_view name, const Tensor& table,
                       const Tensor& y) {
  check.present(name, table);
  check.dtype(name, table, y.dtype);
  check.rank(name, table, 2);
  check.shape(name, table, Shape{table.shape[0], y.shape[2]});
  check.disjoint("y", y, name, table);
}

void check_token_gradient(const Operands& check, std::string_view name, const Tensor& table,
                          const Tensor& dy) {
  check.present(name, table);
  check.dtype(name, table, DType::f32);
  check.rank(name, table, 2);
  check.shape(name, table, Shape{table.shape[0], dy.shape[2]});
  check.disjoint(name, table, "dy", dy);
}

void check_position_gradient(const Operands& check, const Tensor& table, const Tensor& dy,
                             const RowRuns& runs) {
  check.dtype("d_position_table", table, DType::f32);
  check.runs(runs, dy.shape[1]);
  check_positions(check, "d_position_table", table, dy, runs);
  check.disjoint("d_position_table", table, "dy", dy);
}

void check_first_row(std::string_view op, std::int64_t first_row) {
  TRIREME_EXPECTS(first_row >= 0, "{}: the first row is {}, expected 0 or more", op, first_row);
}

// Upper bound of table rows that tokens of y(B, T, C) read: all may differ.
double rows_of(const Tensor& table, const Tensor& y) {
  return static_cast<double>(std::min(y.bytes(), table.bytes()));
}

// Rows of a table of `positions` positions.
double positions_of(const Tensor& table, std::int64_t positions) {
  return table.empty() ? 0
                       : static_cast<double>(positions * table.shape[1]) *
                             static_cast<double>(size_of(table.dtype));
}

// A radix sort groups equal rows: a histogram, its sums and a pass per 8 bits of a row's number,
// plus a kernel that writes the keys and one that adds.
int token_gradient_kernels(const Tensor& d_tokens) {
  const auto bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(d_tokens.shape[0])));
  return 4 + (bits + 7) / 8;
}

// Each table's gradient reads dy. Sorting takes a few bytes per token.
Passes gradient_passes(const Tensor& d_tokens, const Tensor& d_positions, const Tensor& dy,
                       const Tensor& tokens, std::int64_t positions) {
  const double values = static_cast<double>(dy.count()) * sizeof(float);
  Passes passes;
  int kernels = 0;
  if (!d_tokens.empty()) {
    const double rows = std::min(values, static_cast<double>(d_tokens.bytes()));
    passes = std::move(passes).reads(tokens, dy).bytes(rows, rows);
    kernels += token_gradient_kernels(d_tokens);
  }
  if (!d_positions.empty()) {
    const double rows = positions_of(d_positions, positions);
    passes = std::move(passes).reads(dy).bytes(rows, rows);
    ++kernels;
  }
  return std::move(passes).kernels(kernels).of_parameters();
}

}  // namespace

void embedding_forward(Stream& stream, const Tensor& y, const Tensor& tokens,
                       const Tensor& token_table, const Tensor& position_table,
                       const Tensor& document_starts) {
  const Operands check("embedding_forward");
  check.compute_dtype("y", y);
  check_tokens(check, tokens, y);
  check_token_table(check, "token_table", token_table, y);
  if (!position_table.empty()) {
    check.dtype("position_table", position_table, y.dtype);
    check_positions(check, "position_table", position_table, y);
    check.disjoint("y", y, "position_table", position_table);
  }
  check_starts(check, document_starts, y);
  TRIREME_DISPATCH(
      stream, embedding_forward,
      reads(tokens, document_starts)
          .writes(y)
          .bytes(rows_of(token_table, y) + positions_of(position_table, y.shape[1]), 0),
      y, tokens, token_table, position_table, document_starts);
}

void embedding_backward(Stream& stream, const Tensor& d_token_table, const Tensor& d_position_table,
                        const Tensor& dy, const Tensor& tokens, const Tensor& document_starts,
                        const RowRuns& runs) {
  const Operands check("embedding_backward");
  check.compute_dtype("dy", dy);
  check_tokens(check, tokens, dy);
  TRIREME_EXPECTS(!d_token_table.empty() || !d_position_table.empty(),
                  "embedding_backward: neither gradient is wanted");
  if (!d_token_table.empty()) check_token_gradient(check, "d_token_table", d_token_table, dy);
  if (!d_position_table.empty()) {
    check_position_gradient(check, d_position_table, dy, runs);
    check.disjoint("d_position_table", d_position_table, "d_token_table", d_token_table);
  }
  check_starts(check, document_starts, dy);
  // In documents a row may be at any position before its own.
  const std::int64_t positions = document_starts.empty() ? dy.shape[1] : runs.end(dy.shape[1]);
  TRIREME_DISPATCH(stream, embedding_backward,
                   gradient_passes(d_token_table, d_position_table, dy, tokens, positions)
                       .reads(document_starts),
                   d_token_table, d_position_table, dy, tokens, document_starts, runs);
}

void embedding_partial_forward(Stream& stream, const Tensor& y, const Tensor& tokens,
                               const Tensor& table, std::int64_t first_row) {
  const Operands check("embedding_partial_forward");
  check.compute_dtype("y", y);
  check_tokens(check, tokens, y);
  check_token_table(check, "table", table, y);
  check_first_row("embedding_partial_forward", first_row);
  TRIREME_DISPATCH(stream, embedding_partial_forward,
                   reads(tokens).writes(y).bytes(rows_of(table, y), 0), y, tokens, table,
                   first_row);
}

void add_positions(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& position_table,
                   const Tensor& document_starts, const RowRuns& runs, const Tensor& spans) {
  const Operands check("add_positions");
  check.compute_dtype("y", y);
  check.rank("y", y, 3);
  check.is("x", x, y.dtype, y.shape);
  check.same_or_disjoint("y", y, "x", x);
  check.present("position_table", position_table);
  check.dtype("position_table", position_table, y.dtype);
  check.runs(runs, y.shape[1], spans);
  check_positions(check, "position_table", position_table, y, runs);
  check.disjoint("y", y, "position_table", position_table);
  check_starts(check, document_starts, y);
  if (!spans.empty()) check.is("spans", spans, DType::i32, Shape{y.shape[0], 2});
  TRIREME_EXPECTS(spans.empty() || document_starts.empty(),
                  "add_positions: spans of sequences that hold several documents");
  TRIREME_DISPATCH(
      stream, add_positions,
      reads(x, document_starts, spans).writes(y).bytes(positions_of(position_table, y.shape[1]), 0),
      y, x, position_table, document_starts, runs, spans);
}

void add_positions_backward(Stream& stream, const Tensor& d_position_table, const Tensor& dy,
                            const RowRuns& runs) {
  const Operands check("add_positions_backward");
  check.compute_dtype("dy", dy);
  check.rank("dy", dy, 3);
  check.present("d_position_table", d_position_table);
  check_position_gradient(check, d_position_table, dy, runs);
  TRIREME_DISPATCH(stream, add_positions_backward,
                   gradient_passes({}, d_position_table, dy, {}, dy.shape[1]), d_position_table, dy,
                   runs);
}

void embedding_partial_backward(Stream& stream, const Tensor& d_table, const Tensor& dy,
                                const Tensor& tokens, std::int64_t first_row) {
  const Operands check("embedding_partial_backward");
  check.compute_dtype("dy", dy);
  check_tokens(check, tokens, dy);
  check_token_gradient(check, "d_table", d_table, dy);
  check_first_row("embedding_partial_backward", first_row);
  TRIREME_DISPATCH(stream, embedding_partial_backward, gradient_passes(d_table, {}, dy, tokens, 0),
                   d_table, dy, tokens, first_row);
}

}  // namespace trireme::ops
