// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/convolution_cpu.h"

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/convolution_dnnl.h"

namespace trireme::ops::cpu {

ConvolutionGeometry::ConvolutionGeometry(const Shape& x, const Shape& w,
                                         const ConvolutionOptions& options)
    : batch(x[0]),
      height(x[1]),
      width(x[2]),
      in(x[3]),
      out_height((x[1] + 2 * options.padding - w[1]) / options.stride + 1),
      out_width((x[2] + 2 * options.padding - w[2]) / options.stride + 1),
      out(w[0]),
      kernel_height(w[1]),
      kernel_width(w[2]),
      stride(options.stride),
      padding(options.padding) {}

std::size_t convolution_workspace_bytes(DType dtype, const Shape& x, const Shape& w,
                                        const ConvolutionOptions& options) {
  return by_dnnl::workspace_bytes(dtype, {x, w, options});
}

void convolution_forward(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& w,
                         const ConvolutionOptions& options, const Tensor& workspace) {
  const ConvolutionGeometry g(x.shape, w.shape, options);
  enqueue(stream, [g, dtype = x.dtype, y = y.data, x = x.data, w = w.data,
                   workspace = workspace.data] { by_dnnl::forward(dtype, g, y, x, w, workspace); });
}

void convolution_backward_input(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& w,
                                const ConvolutionOptions& options, const Tensor& workspace) {
  const ConvolutionGeometry g(dx.shape, w.shape, options);
  enqueue(stream, [g, dtype = dx.dtype, dx = dx.data, dy = dy.data, w = w.data,
                   workspace = workspace.data] {
    by_dnnl::backward_input(dtype, g, dx, dy, w, workspace);
  });
}

void convolution_backward_weight(Stream& stream, const Tensor& dw, const Tensor& dy,
                                 const Tensor& x, const ConvolutionOptions& options,
                                 const Tensor& workspace) {
  const ConvolutionGeometry g(x.shape, dw.shape, options);
  enqueue(stream, [g, dtype = x.dtype, dw = dw.as<float>(), dy = dy.data, x = x.data,
                   workspace = workspace.data] {
    by_dnnl::backward_weight(dtype, g, dw, dy, x, workspace);
  });
}

}  // namespace trireme::ops::cpu
