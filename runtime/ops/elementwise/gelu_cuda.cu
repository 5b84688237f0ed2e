// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/common/transform_cuda.h"
#include "runtime/ops/elementwise/gelu.h"
#include "runtime/ops/elementwise/gelu_math.h"

namespace trireme::ops::cuda {
namespace {

struct ScalarMath {
  using Value = float;
  // Finite, as on the CPU: products with what underflows meanwhile stay 0.
  __device__ static float exp(float x) { return expf(x < 88.0F ? x : 88.0F); }
  __device__ static float minimum(float a, float b) { return a < b ? a : b; }
  __device__ static float maximum(float a, float b) { return a > b ? a : b; }
  __device__ static float pick(float x, float negative, float other) {
    return x < 0.0F ? negative : other;
  }
};

template <typename Form>
struct Value {
  __device__ float operator()(float x) const { return Form::value(x); }
};
template <typename Form>
struct Backward {
  __device__ float operator()(float dy, float x) const { return dy * Form::slope(x); }
};

// Calls action(gelu) with an object of the form.
template <typename Action>
void visit_form(GeluForm form, Action&& action) {
  form == GeluForm::exact ? action(ExactGelu<ScalarMath>{}) : action(Gelu<ScalarMath>{});
}

}  // namespace

void gelu_forward(Stream& stream, const Tensor& y, const Tensor& x, GeluForm form,
                  const Tensor& amax) {
  visit_compute_dtype(y.dtype, [&](auto type) {
    using T = decltype(type);
    visit_form(form, [&](auto gelu) {
      transform_measured(stream, amax, y.as<T>(), y.count(), Value<decltype(gelu)>{}, x.as<T>());
    });
  });
}

void gelu_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x,
                   GeluForm form, const Tensor& amax) {
  visit_compute_dtype(dx.dtype, [&](auto type) {
    using T = decltype(type);
    visit_form(form, [&](auto gelu) {
      transform_measured(stream, amax, dx.as<T>(), dx.count(), Backward<decltype(gelu)>{},
                         dy.as<T>(), x.as<T>());
    });
  });
}

TRIREME_CUDA_PROVIDES(ops, gelu_forward);
TRIREME_CUDA_PROVIDES(ops, gelu_backward);

}  // namespace trireme::ops::cuda
