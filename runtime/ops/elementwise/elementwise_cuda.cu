// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/common/fixed_sum_cuda.h"
#include "runtime/ops/common/transform_cuda.h"
#include "runtime/ops/elementwise/elementwise.h"

namespace trireme::ops::cuda {
namespace {

struct Add {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Scale {
  float factor;
  __device__ float operator()(float a) const { return a * factor; }
};
// NaN passes, because hiding it here would only move the failure elsewhere.
struct Relu {
  __device__ float operator()(float a) const { return a < 0.0F ? 0.0F : a; }
  __device__ float operator()(float a, float b) const { return (*this)(a + b); }
};
struct ReluBackward {
  __device__ float operator()(float dy, float y) const { return y > 0.0F ? dy : 0.0F; }
};
struct Same {
  __device__ float operator()(float x) const { return x; }
};

}  // namespace

void add_in_place(Stream& stream, const Tensor& y, const Tensor& x) {
  visit_compute_dtype(y.dtype, [&](auto type) {
    using T = decltype(type);
    transform(stream, y.as<T>(), y.count(), Add{}, y.as<T>(), x.as<T>());
  });
}

void scale_in_place(Stream& stream, const Tensor& y, float factor) {
  visit_compute_dtype(y.dtype, [&](auto type) {
    using T = decltype(type);
    transform(stream, y.as<T>(), y.count(), Scale{factor}, y.as<T>());
  });
}

void relu_forward(Stream& stream, const Tensor& y, const Tensor& a, const Tensor& b) {
  visit_compute_dtype(y.dtype, [&](auto type) {
    using T = decltype(type);
    if (b.empty()) {
      transform(stream, y.as<T>(), y.count(), Relu{}, a.as<T>());
    } else {
      transform(stream, y.as<T>(), y.count(), Relu{}, a.as<T>(), b.as<T>());
    }
  });
}

void relu_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& y) {
  visit_compute_dtype(dx.dtype, [&](auto type) {
    using T = decltype(type);
    transform(stream, dx.as<T>(), dx.count(), ReluBackward{}, dy.as<T>(), y.as<T>());
  });
}

void cast(Stream& stream, const Tensor& y, const Tensor& x) {
  if (y.dtype == x.dtype) {
    stream.device().copy(stream, y.data, x.data, y.bytes());
    return;
  }
  visit_compute_dtype(y.dtype, [&](auto to_type) {
    visit_compute_dtype(x.dtype, [&](auto from_type) {
      using To = decltype(to_type);
      using From = decltype(from_type);
      if constexpr (!std::is_same_v<To, From>)
        transform(stream, y.as<To>(), y.count(), Same{}, x.as<From>());
    });
  });
}

void accumulate_sum(Stream& stream, const Tensor& total, const Tensor& x) {
  add_fixed_sum<false>(stream, total, x);
}

TRIREME_CUDA_PROVIDES(ops, add_in_place);
TRIREME_CUDA_PROVIDES(ops, scale_in_place);
TRIREME_CUDA_PROVIDES(ops, relu_forward);
TRIREME_CUDA_PROVIDES(ops, relu_backward);
TRIREME_CUDA_PROVIDES(ops, cast);
TRIREME_CUDA_PROVIDES(ops, accumulate_sum);

}  // namespace trireme::ops::cuda
