// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/embedding.h"

#include "runtime/ops/dispatch.h"
#include "runtime/ops/embedding_cpu.h"
#include "runtime/ops/operands.h"

namespace trireme::ops {
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
                     const Tensor& values) {
  check.rank(name, table, 2);
  TRIREME_EXPECTS(table.shape[0] >= values.shape[1] && table.shape[1] == values.shape[2],
                  "embedding: {} has shape {}, too small for values of shape {}", name,
                  table.shape.to_string(), values.shape.to_string());
}

}  // namespace

void embedding_forward(Stream& stream, const Tensor& y, const Tensor& tokens,
                       const Tensor& token_table, const Tensor& position_table) {
  const Operands check("embedding_forward");
  check.compute_dtype("y", y);
  check_tokens(check, tokens, y);
  check.present("token_table", token_table);
  check.dtype("token_table", token_table, y.dtype);
  check.rank("token_table", token_table, 2);
  check.shape("token_table", token_table, Shape{token_table.shape[0], y.shape[2]});
  check.disjoint("y", y, "token_table", token_table);
  if (!position_table.empty()) {
    check.dtype("position_table", position_table, y.dtype);
    check_positions(check, "position_table", position_table, y);
    check.disjoint("y", y, "position_table", position_table);
  }
  TRIREME_DISPATCH(stream, embedding_forward, y, tokens, token_table, position_table);
}

void embedding_backward(Stream& stream, const Tensor& d_token_table, const Tensor& d_position_table,
                        const Tensor& dy, const Tensor& tokens) {
  const Operands check("embedding_backward");
  check.compute_dtype("dy", dy);
  check_tokens(check, tokens, dy);
  check.present("d_token_table", d_token_table);
  check.dtype("d_token_table", d_token_table, DType::f32);
  check.rank("d_token_table", d_token_table, 2);
  check.shape("d_token_table", d_token_table, Shape{d_token_table.shape[0], dy.shape[2]});
  check.disjoint("d_token_table", d_token_table, "dy", dy);
  if (!d_position_table.empty()) {
    check.dtype("d_position_table", d_position_table, DType::f32);
    check_positions(check, "d_position_table", d_position_table, dy);
    check.disjoint("d_position_table", d_position_table, "dy", dy);
    check.disjoint("d_position_table", d_position_table, "d_token_table", d_token_table);
  }
  TRIREME_DISPATCH(stream, embedding_backward, d_token_table, d_position_table, dy, tokens);
}

}  // namespace trireme::ops
