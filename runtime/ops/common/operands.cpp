// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/common/operands.h"

#include <functional>

#include "runtime/ops/common/float_types.h"

namespace trireme::ops {

namespace {

bool overlap(const Tensor& a, const Tensor& b) {
  if (a.empty() || b.empty()) return false;
  const std::less<const std::byte*> before;
  return before(a.data, b.data + b.bytes()) && before(b.data, a.data + a.bytes());
}

}  // namespace

void Operands::present(std::string_view name, const Tensor& tensor) const {
  TRIREME_EXPECTS(!tensor.empty(), "{}: {} is absent", op_, name);
}

void Operands::dtype(std::string_view name, const Tensor& tensor, DType expected) const {
  TRIREME_EXPECTS(tensor.dtype == expected, "{}: {}{} holds {}, expected {}", op_, name,
                  tensor.shape.to_string(), name_of(tensor.dtype), name_of(expected));
}

void Operands::compute_dtype(std::string_view name, const Tensor& tensor) const {
  present(name, tensor);
  TRIREME_EXPECTS(is_compute_dtype(tensor.dtype), "{}: {}{} holds {}, expected f32, bf16 or f16",
                  op_, name, tensor.shape.to_string(), name_of(tensor.dtype));
}

void Operands::rank(std::string_view name, const Tensor& tensor, std::size_t expected) const {
  TRIREME_EXPECTS(tensor.shape.rank() == expected, "{}: {} has shape {}, expected {} extents", op_,
                  name, tensor.shape.to_string(), expected);
}

void Operands::shape(std::string_view name, const Tensor& tensor, const Shape& expected) const {
  TRIREME_EXPECTS(tensor.shape == expected, "{}: {} has shape {}, expected {}", op_, name,
                  tensor.shape.to_string(), expected.to_string());
}

void Operands::count(std::string_view name, const Tensor& tensor, std::int64_t expected) const {
  TRIREME_EXPECTS(tensor.count() == expected, "{}: {} of shape {} has {} elements, expected {}",
                  op_, name, tensor.shape.to_string(), tensor.count(), expected);
}

void Operands::is(std::string_view name, const Tensor& tensor, DType expected_dtype,
                  const Shape& expected) const {
  present(name, tensor);
  dtype(name, tensor, expected_dtype);
  shape(name, tensor, expected);
}

void Operands::reduction(std::string_view name, const Tensor& result, DType result_dtype,
                         const Tensor& x) const {
  is(name, result, result_dtype, Shape{1});
  present("x", x);
  dtype("x", x, DType::f32);
  disjoint(name, result, "x", x);
}

void Operands::largest_magnitude(const Tensor& amax, std::string_view of_name,
                                 const Tensor& of) const {
  if (amax.empty()) return;
  is("amax", amax, DType::u32, Shape{1});
  TRIREME_EXPECTS(of.count() > 0, "{}: {} of shape {} has no largest magnitude", op_, of_name,
                  of.shape.to_string());
  disjoint("amax", amax, of_name, of);
}

void Operands::disjoint(std::string_view name, const Tensor& tensor, std::string_view other_name,
                        const Tensor& other) const {
  TRIREME_EXPECTS(!overlap(tensor, other), "{}: {}{} shares memory with {}{}", op_, name,
                  tensor.shape.to_string(), other_name, other.shape.to_string());
}

void Operands::same_or_disjoint(std::string_view name, const Tensor& tensor,
                                std::string_view other_name, const Tensor& other) const {
  const bool same = tensor.data == other.data && tensor.bytes() == other.bytes();
  TRIREME_EXPECTS(same || !overlap(tensor, other), "{}: {}{} shares a part of its memory with {}{}",
                  op_, name, tensor.shape.to_string(), other_name, other.shape.to_string());
}

void Operands::runs(const RowRuns& runs, std::int64_t length, const Tensor& spans) const {
  TRIREME_EXPECTS(runs.rows >= 0 && runs.rows <= length && runs.first >= 0 && runs.second >= 0,
                  "{}: {} rows from position {} on, then others from {} on, of {} rows", op_,
                  runs.rows, runs.first, runs.second, length);
  TRIREME_EXPECTS(runs.empty() || spans.empty(), "{}: spans of rows in two runs", op_);
}

}  // namespace trireme::ops
