// SPDX-License-Identifier: Apache-2.0
// Private: written once for all back ends, see common/maps_cpu.h.
#pragma once

#include "runtime/ops/elementwise/activation_math.h"

namespace trireme::ops::TRIREME_BACK_END {
namespace {

using V = Math::Value;

template <typename F>
struct Value {
  [[gnu::always_inline]] TRIREME_HOST_DEVICE V operator()(V x) const { return F::value(x); }
};
template <typename F>
struct Backward {
  [[gnu::always_inline]] TRIREME_HOST_DEVICE V operator()(V dy, V x) const {
    return dy * F::slope(x);
  }
};

// Calls action(an element of dtype, functor of the kind).
template <typename Action>
void visit(DType dtype, ActivationKind kind, Action&& action) {
  visit_compute_dtype(dtype, [&](auto type) {
    visit_activation<Math>(kind, [&](auto functor) { action(type, functor); });
  });
}

}  // namespace

void activation_forward(Stream& stream, const Tensor& y, const Tensor& x, ActivationKind kind,
                        const Tensor& amax) {
  visit_activation<Math>(kind,
                         [&]<typename F>(F) { map_measured(stream, amax, y, Value<F>{}, x); });
}

void activation_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x,
                         ActivationKind kind, const Tensor& amax) {
  visit_activation<Math>(
      kind, [&]<typename F>(F) { map_measured(stream, amax, dx, Backward<F>{}, dy, x); });
}

void leaky_relu_forward(Stream& stream, const Tensor& y, const Tensor& x, float slope) {
  map_measured(stream, {}, y, LeakyRelu<Math>{slope}, x);
}

void leaky_relu_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& y,
                         float slope) {
  map_measured(stream, {}, dx, LeakyReluBackward<Math>{slope}, dy, y);
}

void tanh_forward(Stream& stream, const Tensor& y, const Tensor& x, float scale) {
  map_measured(stream, {}, y, Tanh<Math>{scale}, x);
}

void tanh_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& y,
                   float scale) {
  map_measured(stream, {}, dx, TanhBackward<Math>{scale}, dy, y);
}

TRIREME_PROVIDES(activation_forward, activation_backward, leaky_relu_forward, leaky_relu_backward,
                 tanh_forward, tanh_backward);

}  // namespace trireme::ops::TRIREME_BACK_END
