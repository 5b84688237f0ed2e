// SPDX-License-Identifier: Apache-2.0
// Private: written once for all back ends, see common/maps_cpu.h.
#pragma once

#include "runtime/ops/elementwise/elementwise.h"

namespace trireme::ops::TRIREME_BACK_END {
namespace {

struct Add {
  TRIREME_HOST_DEVICE float operator()(float a, float b) const { return a + b; }
};
struct Scale {
  float factor;
  TRIREME_HOST_DEVICE float operator()(float a) const { return a * factor; }
};
// NaN passes, because hiding it here would only move the failure elsewhere.
struct Relu {
  TRIREME_HOST_DEVICE float operator()(float a) const { return a < 0.0F ? 0.0F : a; }
  TRIREME_HOST_DEVICE float operator()(float a, float b) const { return (*this)(a + b); }
};
struct ReluBackward {
  TRIREME_HOST_DEVICE float operator()(float dy, float y) const { return y > 0.0F ? dy : 0.0F; }
};
struct Same {
  TRIREME_HOST_DEVICE float operator()(float x) const { return x; }
};

// y[i] = f(operands[i]...), all of y's dtype.
template <typename F, typename... Tensors>
void map(Stream& stream, const Tensor& y, F f, const Tensors&... operands) {
  visit_compute_dtype(y.dtype, [&]<typename T>(T) {
    transform(stream, y.as<T>(), y.count(), f, operands.template as<T>()...);
  });
}

}  // namespace

void add_in_place(Stream& stream, const Tensor& y, const Tensor& x) {
  map(stream, y, Add{}, y, x);
}

void scale_in_place(Stream& stream, const Tensor& y, float factor) {
  map(stream, y, Scale{factor}, y);
}

void relu_forward(Stream& stream, const Tensor& y, const Tensor& a, const Tensor& b) {
  b.empty() ? map(stream, y, Relu{}, a) : map(stream, y, Relu{}, a, b);
}

void relu_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& y) {
  map(stream, dx, ReluBackward{}, dy, y);
}

void cast(Stream& stream, const Tensor& y, const Tensor& x) {
  if (y.dtype == x.dtype) return stream.device().copy(stream, y.data, x.data, y.bytes());
  visit_compute_dtype(y.dtype, [&]<typename To>(To) {
    visit_compute_dtype(x.dtype, [&]<typename From>(From) {
      if constexpr (!std::is_same_v<To, From>)
        transform(stream, y.as<To>(), y.count(), Same{}, x.as<From>());
    });
  });
}

TRIREME_PROVIDES(add_in_place, scale_in_place, relu_forward, relu_backward, cast);

}  // namespace trireme::ops::TRIREME_BACK_END
