// SPDX-License-Identifier: Apache-2.0
// Checks of an op's operands with uniform messages: op, operand, actual and expected value. Private
// to this module.
#pragma once

#include <string_view>

#include "runtime/base/shape.h"
#include "runtime/ops/common/row_runs.h"

namespace trireme::ops {

// One per op call: Operands check("adamw"); check.shape("m", m, parameter.shape);
class Operands {
 public:
  explicit Operands(std::string_view op) : op_(op) {}

  void present(std::string_view name, const Tensor& tensor) const;
  void dtype(std::string_view name, const Tensor& tensor, DType expected) const;
  // f32, bf16 or f16.
  void compute_dtype(std::string_view name, const Tensor& tensor) const;
  void rank(std::string_view name, const Tensor& tensor, std::size_t expected) const;
  void shape(std::string_view name, const Tensor& tensor, const Shape& expected) const;
  // Equal element counts; the shapes may differ.
  void count(std::string_view name, const Tensor& tensor, std::int64_t expected) const;
  // present, dtype and shape at once.
  void is(std::string_view name, const Tensor& tensor, DType dtype, const Shape& expected) const;
  // `result` is the single element of `dtype` to which x, f32 of any shape, is reduced.
  void reduction(std::string_view name, const Tensor& result, DType dtype, const Tensor& x) const;
  // `amax`, which may be absent: one u32, disjoint from the tensor (magnitude.h).
  void largest_magnitude(const Tensor& amax, std::string_view of_name, const Tensor& of) const;
  // No byte in common. Absent tensors are disjoint from everything.
  void disjoint(std::string_view name, const Tensor& tensor, std::string_view other_name,
                const Tensor& other) const;
  // The very same elements, or no byte in common.
  void same_or_disjoint(std::string_view name, const Tensor& tensor, std::string_view other_name,
                        const Tensor& other) const;
  // Of samples of `length` rows; without spans.
  void runs(const RowRuns& runs, std::int64_t length, const Tensor& spans = {}) const;

 private:
  std::string_view op_;
};

}  // namespace trireme::ops
