// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/convolution/convolution_workspace.h"

#include "runtime/device/cpu/cpu_features.h"
#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/common/float_types.h"
#include "runtime/ops/convolution/convolution_direct_cpu.h"
#include "runtime/ops/convolution/convolution_dnnl_cpu.h"
#include "runtime/ops/elementwise/elementwise.h"

namespace trireme::ops::cpu {

namespace {

// oneDNN only if it has native bf16: scripts/measurements/convolution_cpu.txt.
bool use_dnnl(DType dtype) {
  static const bool native = cpu_has_bf16();
  return dtype == DType::bf16 && native;
}

}  // namespace

std::size_t convolution_workspace_bytes(DType dtype, const Shape& x, const Shape& w,
                                        const ConvolutionOptions& options) {
  const ConvolutionGeometry g(x, w, options);
  return use_dnnl(dtype) ? by_dnnl::workspace_bytes(dtype, g) : direct::workspace_bytes(dtype, g);
}

void convolution_forward(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& w,
                         const ConvolutionOptions& options, const Tensor& workspace) {
  const ConvolutionGeometry g(x.shape, w.shape, options);
  if (use_dnnl(x.dtype)) {
    enqueue(stream, [g, y = y.data, x = x.data, w = w.data, workspace = workspace.data] {
      by_dnnl::forward(DType::bf16, g, y, x, w, workspace);
    });
    return;
  }
  visit_compute_dtype(x.dtype, [&](auto type) {
    using T = decltype(type);
    enqueue(stream, [g, y = y.as<T>(), x = x.as<T>(), w = w.as<T>(), workspace = workspace.data] {
      direct::forward(g, y, x, w, workspace);
    });
  });
}

void convolution_backward_input(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& w,
                                const ConvolutionOptions& options, const Tensor& workspace,
                                const Tensor& addend) {
  const ConvolutionGeometry g(dx.shape, w.shape, options);
  if (use_dnnl(dx.dtype)) {
    enqueue(stream, [g, dx = dx.data, dy = dy.data, w = w.data, workspace = workspace.data] {
      by_dnnl::backward_input(DType::bf16, g, dx, dy, w, workspace);
    });
  } else {
    visit_compute_dtype(dx.dtype, [&](auto type) {
      using T = decltype(type);
      enqueue(stream,
              [g, dx = dx.as<T>(), dy = dy.as<T>(), w = w.as<T>(), workspace = workspace.data] {
                direct::backward_input(g, dx, dy, w, workspace);
              });
    });
  }
  if (!addend.empty()) ops::add_in_place(stream, dx, addend);
}

void convolution_backward_weight(Stream& stream, const Tensor& dw, const Tensor& dy,
                                 const Tensor& x, const ConvolutionOptions& options,
                                 const Tensor& workspace) {
  const ConvolutionGeometry g(x.shape, dw.shape, options);
  if (use_dnnl(x.dtype)) {
    enqueue(stream, [g, dw = dw.as<float>(), dy = dy.data, x = x.data, workspace = workspace.data] {
      by_dnnl::backward_weight(DType::bf16, g, dw, dy, x, workspace);
    });
    return;
  }
  visit_compute_dtype(x.dtype, [&](auto type) {
    using T = decltype(type);
    enqueue(stream,
            [g, dw = dw.as<float>(), dy = dy.as<T>(), x = x.as<T>(), workspace = workspace.data] {
              direct::backward_weight(g, dw, dy, x, workspace);
            });
  });
}

}  // namespace trireme::ops::cpu
