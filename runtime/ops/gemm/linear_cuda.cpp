// SPDX-License-Identifier: Apache-2.0
// Row-major matrices are transposed for cuBLASLt, so y = x w^T is y^T = w x^T there.
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/elementwise/activation.h"
#include "runtime/ops/elementwise/elementwise.h"
#include "runtime/ops/gemm/cublaslt_cuda.h"
#include "runtime/ops/gemm/linear.h"

namespace trireme::ops::cuda {
namespace {

// y = x w^T.
Gemm forward_gemm(const Tensor& y, const Tensor& x, const Tensor& w) {
  return {.m = w.shape[0],
          .n = x.shape.rows(),
          .k = w.shape[1],
          .transpose_a = true,
          .type_a = w.dtype,
          .type_b = w.dtype,
          .output = y.dtype,
          .a = w.data,
          .b = x.data,
          .d = y.data};
}

// dx = dy w.
Gemm input_gemm(const Tensor& dx, const Tensor& dy, const Tensor& w) {
  return {.m = w.shape[1],
          .n = dy.shape.rows(),
          .k = w.shape[0],
          .type_a = w.dtype,
          .type_b = w.dtype,
          .output = dx.dtype,
          .a = w.data,
          .b = dy.data,
          .d = dx.data};
}

}  // namespace

void linear_forward(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& w,
                    const Tensor& bias, const Tensor& residual) {
  if (y.count() == 0) return;
  Gemm gemm = forward_gemm(y, x, w);
  gemm.bias = epilogue_bias(stream, bias, y.dtype);
  if (gemm.bias != nullptr) gemm.epilogue = Epilogue::bias;
  gemm.c = residual.data;
  gemm.beta = residual.empty() ? 0.0F : 1.0F;
  multiply(stream, gemm);
}

void linear_backward_input(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& w,
                           bool accumulate) {
  if (dx.count() == 0) return;
  Gemm gemm = input_gemm(dx, dy, w);
  gemm.c = dx.data;
  gemm.beta = accumulate ? 1.0F : 0.0F;
  multiply(stream, gemm);
}

void linear_backward_weight(Stream& stream, const Tensor& dw, const Tensor& db, const Tensor& dy,
                            const Tensor& x) {
  Gemm gemm{.m = dw.shape[1],
            .n = dw.shape[0],
            .k = x.shape.rows(),
            .transpose_b = true,
            .type_a = x.dtype,
            .type_b = x.dtype,
            .output = DType::f32,
            .a = x.data,
            .b = dy.data,
            .c = dw.data,
            .d = dw.data,
            .beta = 1.0F};
  const bool multiplies = dw.count() > 0 && x.count() > 0;
  if (!db.empty()) {
    std::byte* const sums =
        CudaStream::of(stream).scratch(static_cast<std::size_t>(db.count()) * sizeof(float));
    Gemm with_sums = gemm;
    with_sums.epilogue = Epilogue::bias_gradient;
    with_sums.bias_gradient = reinterpret_cast<float*>(sums);
    if (multiplies && fuses(stream, with_sums)) {
      multiply(stream, with_sums);
      ops::add_in_place(stream, db, {sums, db.dtype, db.shape});
      return;
    }
    ops::column_sums(stream, db, dy);
  }
  if (multiplies) multiply(stream, gemm);
}

void linear_gelu_forward(Stream& stream, const Tensor& y, const Tensor& pre, const Tensor& x,
                         const Tensor& w, const Tensor& bias) {
  if (y.count() == 0) return;
  if (!bias.empty() && stream.policy().fused_epilogues) {
    Gemm gemm = forward_gemm(y, x, w);
    gemm.epilogue = Epilogue::gelu_bias;
    // Rounded only for a fused matmul, to an address as aligned as y has to be then.
    gemm.bias = bias.dtype == y.dtype ? bias.data : y.data;
    gemm.aux = pre.data;
    if (fuses(stream, gemm)) {
      gemm.bias = epilogue_bias(stream, bias, y.dtype);
      multiply(stream, gemm);
      return;
    }
  }
  ops::linear_forward(stream, pre, x, w, bias);
  ops::activation_forward(stream, y, pre, ActivationKind::gelu_tanh);
}

void linear_gelu_backward_input(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& w,
                                const Tensor& pre) {
  if (dx.count() == 0) return;
  Gemm gemm = input_gemm(dx, dy, w);
  gemm.epilogue = Epilogue::dgelu;
  gemm.aux = pre.data;
  if (fuses(stream, gemm)) {
    multiply(stream, gemm);
    return;
  }
  ops::linear_backward_input(stream, dx, dy, w);
  ops::activation_backward(stream, dx, dx, pre, ActivationKind::gelu_tanh);
}

TRIREME_CUDA_PROVIDES(ops, linear_forward, linear_backward_input, linear_backward_weight,
                      linear_gelu_forward, linear_gelu_backward_input);

}  // namespace trireme::ops::cuda
