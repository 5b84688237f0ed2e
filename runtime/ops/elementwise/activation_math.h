// SPDX-License-Identifier: Apache-2.0
// Each activation as a functor for all back ends, private to this module: value(x) = f(x), slope(x)
// = f'(x), times(v, x) = v f(x). Of a gated unit f(gate) is multiplied by factor(value), and
// of_value(gradient, value) takes the gradient by the factor to that by the value.
//
// GELU's tanh form as a logistic: 0.5 x (1 + tanh(u)) = x / (1 + e^-2u), u = k (x + 0.044715 x^3),
// which keeps relative precision where the tanh approaches -1.
//
// The exact form needs the tail Phi(-a), a = |x|, with relative precision: e^(-a^2 / 2) q(t) with t
// = 1 / (1 + 0.35 a), and q the polynomial without a constant term with the smallest maximum
// relative error on 0 <= a <= 20 (4.4e-8), found by reweighted least squares.
//
// V is a value or a vector; Math supplies exp, minimum and maximum for it (the latter two return
// their second argument if it is NaN), and pick(x, a, b): a where x < 0, else b.
#pragma once

#include "runtime/base/host_device.h"
#include "runtime/ops/elementwise/activation.h"

namespace trireme::ops {

// Values of a gated unit are factors themselves.
template <typename V>
struct PlainValues {
  [[gnu::always_inline]] TRIREME_HOST_DEVICE static V factor(V value) { return value; }
  [[gnu::always_inline]] TRIREME_HOST_DEVICE static V of_value(V gradient, V /*value*/) {
    return gradient;
  }
};

template <typename Math, typename V = typename Math::Value>
struct GeluTanh : PlainValues<V> {
  static constexpr float two_k = 1.5957691216F;  // 2 sqrt(2 / pi)
  static constexpr float cubic = 0.044715F;

  [[gnu::always_inline]] TRIREME_HOST_DEVICE static V value(V x) {
    const V two_u = two_k * x * (1.0F + cubic * x * x);
    return x / (1.0F + Math::exp(-two_u));
  }
  [[gnu::always_inline]] TRIREME_HOST_DEVICE static V times(V factor, V x) {
    return factor * value(x);
  }

  // Its derivative. Beyond 20 it is exactly 0 or 1; the limit keeps products finite.
  [[gnu::always_inline]] TRIREME_HOST_DEVICE static V slope(V x) {
    const V limited = Math::maximum(-20.0F, Math::minimum(20.0F, x));
    const V square = limited * limited;
    const V two_u = two_k * limited * (1.0F + cubic * square);
    const V two_u_slope = two_k * (1.0F + 3.0F * cubic * square);
    const V e = Math::exp(-two_u);
    const V s = 1.0F / (1.0F + e);
    return s + limited * two_u_slope * (s * (e * s));
  }
};

template <typename Math, typename V = typename Math::Value>
struct GeluExact : PlainValues<V> {
  [[gnu::always_inline]] TRIREME_HOST_DEVICE static V value(V x) {
    const V positive = Math::maximum(0.0F, x);
    const V size = limited(2.0F * positive - x);
    return positive - size * tail(size, density(size));
  }
  [[gnu::always_inline]] TRIREME_HOST_DEVICE static V times(V factor, V x) {
    return factor * value(x);
  }

  // Its derivative Phi(x) + x e^(-x^2 / 2) / sqrt(2 pi).
  [[gnu::always_inline]] TRIREME_HOST_DEVICE static V slope(V x) {
    constexpr float peak = 0.3989422804F;
    const V size = limited(2.0F * Math::maximum(0.0F, x) - x);
    const V e = density(size);
    const V below = tail(size, e) - peak * size * e;
    return Math::pick(x, below, 1.0F - below);
  }

 private:
  // Beyond 20 the tail is 0; the limit keeps products finite.
  [[gnu::always_inline]] TRIREME_HOST_DEVICE static V limited(V size) {
    return Math::minimum(20.0F, size);
  }
  [[gnu::always_inline]] TRIREME_HOST_DEVICE static V density(V size) {
    return Math::exp(-0.5F * size * size);
  }
  [[gnu::always_inline]] TRIREME_HOST_DEVICE static V tail(V size, V e) {
    const V t = 1.0F / (1.0F + 0.35F * size);
    V q = -0x1.d373e6p-6F * t + 0x1.21534cp-3F;
    q = q * t - 0x1.00c150p-2F;
    q = q * t + 0x1.3bbb7ep-3F;
    q = q * t - 0x1.499bc8p-6F;
    q = q * t + 0x1.abbc2cp-4F;
    q = q * t + 0x1.ebc5d4p-4F;
    q = q * t + 0x1.1e625cp-3F;
    q = q * t + 0x1.1df272p-3F;
    return q * t * e;
  }
};

template <typename Math, typename V = typename Math::Value>
struct Silu : PlainValues<V> {
  [[gnu::always_inline]] TRIREME_HOST_DEVICE static V value(V x) {
    return x / (1.0F + Math::exp(-x));
  }
  [[gnu::always_inline]] TRIREME_HOST_DEVICE static V times(V factor, V x) {
    return factor * x * (1.0F / (1.0F + Math::exp(-x)));
  }
  // s (1 + x (1 - s)) with s = 1 / (1 + e^-x) and 1 - s = e^-x s.
  [[gnu::always_inline]] TRIREME_HOST_DEVICE static V slope(V x) {
    const V e = Math::exp(-x);
    const V s = 1.0F / (1.0F + e);
    return s + x * s * (e * s);
  }
};

template <typename Math, typename V = typename Math::Value>
struct Relu2 : PlainValues<V> {
  [[gnu::always_inline]] TRIREME_HOST_DEVICE static V value(V x) {
    const V positive = Math::maximum(0.0F, x);
    return positive * positive;
  }
  [[gnu::always_inline]] TRIREME_HOST_DEVICE static V times(V factor, V x) {
    return factor * value(x);
  }
  [[gnu::always_inline]] TRIREME_HOST_DEVICE static V slope(V x) {
    return 2.0F * Math::maximum(0.0F, x);
  }
};

// Where a limit cuts, derivatives are zero; at the limit itself they are not.
template <typename Math, typename V = typename Math::Value>
struct ClampedSwiglu {
  static constexpr float alpha = 1.702F, limit = 7.0F;

  [[gnu::always_inline]] TRIREME_HOST_DEVICE static V value(V x) {
    const V gate = Math::minimum(limit, x);
    return gate / (1.0F + Math::exp(-alpha * gate));
  }
  [[gnu::always_inline]] TRIREME_HOST_DEVICE static V times(V factor, V x) {
    return factor * value(x);
  }
  [[gnu::always_inline]] TRIREME_HOST_DEVICE static V slope(V x) {
    const V e = Math::exp(-alpha * x);
    const V s = 1.0F / (1.0F + e);
    return Math::pick(limit - x, V{}, s + alpha * x * s * (e * s));
  }
  [[gnu::always_inline]] TRIREME_HOST_DEVICE static V factor(V value) {
    return 1.0F + Math::maximum(-limit, Math::minimum(limit, value));
  }
  [[gnu::always_inline]] TRIREME_HOST_DEVICE static V of_value(V gradient, V value) {
    const V size = 2.0F * Math::maximum(0.0F, value) - value;
    return Math::pick(limit - size, V{}, gradient);
  }
};

// The functions whose derivative follows from their value, with their options.
template <typename Math, typename V = typename Math::Value>
struct LeakyRelu {
  float slope;
  [[gnu::always_inline]] TRIREME_HOST_DEVICE V operator()(V x) const {
    return Math::pick(x, slope * x, x);
  }
};
template <typename Math, typename V = typename Math::Value>
struct LeakyReluBackward {
  float slope;
  [[gnu::always_inline]] TRIREME_HOST_DEVICE V operator()(V dy, V y) const {
    return Math::pick(-y, dy, slope * dy);
  }
};

// Near 0, where 1 - 2 / (1 + e^2x) loses relative precision: x + x^3 p(x^2), with the p of smallest
// maximum relative error up to 0.625 (4.4e-9), found by reweighted least squares.
template <typename Math, typename V = typename Math::Value>
struct Tanh {
  float scale;
  [[gnu::always_inline]] TRIREME_HOST_DEVICE V operator()(V x) const {
    const V size = 2.0F * Math::maximum(0.0F, x) - x;
    const V far = 1.0F - 2.0F / (1.0F + Math::exp(2.0F * size));
    const V square = x * x;
    V p = -0x1.75e1d4p-8F * square + 0x1.52269ep-6F;
    p = p * square - 0x1.b83c5ap-5F;
    p = p * square + 0x1.110726p-3F;
    p = p * square - 0x1.555532p-2F;
    // A NaN is near.
    return scale * Math::pick(0.625F - size, Math::pick(x, -far, far), x + x * square * p);
  }
};
template <typename Math, typename V = typename Math::Value>
struct TanhBackward {
  float scale;
  [[gnu::always_inline]] TRIREME_HOST_DEVICE V operator()(V dy, V y) const {
    const V share = y / scale;
    return dy * (scale * (1.0F - share * share));
  }
};

// Calls action(functor of the kind).
template <typename Math, typename Action>
void visit_activation(ActivationKind kind, Action&& action) {
  switch (kind) {
    case ActivationKind::gelu_tanh:
      return action(GeluTanh<Math>{});
    case ActivationKind::gelu_exact:
      return action(GeluExact<Math>{});
    case ActivationKind::silu:
      return action(Silu<Math>{});
    case ActivationKind::relu2:
      return action(Relu2<Math>{});
    case ActivationKind::clamped_swiglu:
      return action(ClampedSwiglu<Math>{});
  }
}

}  // namespace trireme::ops
