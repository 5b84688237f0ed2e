// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/convolution/convolution.h"

#include "runtime/ops/common/cudnn_graphs.h"
#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"
#include "runtime/ops/convolution/convolution_workspace.h"

namespace trireme::ops {

TRIREME_KERNELS(convolution_forward, convolution_backward_input, convolution_backward_weight);

namespace {

WindowAxes axes_of(const Shape& x, const Shape& w, const ConvolutionOptions& options) {
  TRIREME_EXPECTS((x.rank() == 4 || x.rank() == 5) && w.rank() == x.rank() && options.groups >= 1 &&
                      x.back() == w.back() * options.groups,
                  "convolution: x {} and w {} in {} groups, expected (N, [D,] H, W, I) and "
                  "(O, [KD,] KH, KW, I / groups)",
                  x.to_string(), w.to_string(), options.groups);
  TRIREME_EXPECTS(x.count() > 0 && w.count() > 0, "convolution: x {} or w {} is empty",
                  x.to_string(), w.to_string());
  TRIREME_EXPECTS(w[0] % options.groups == 0, "convolution: {} groups do not divide the filters {}",
                  options.groups, w.to_string());
  const PerAxis window = w.rank() == 4 ? PerAxis(w[1], w[2]) : PerAxis(w[1], w[2], w[3]);
  return {"convolution", x, window, options.stride, options.padding, options.dilation};
}

}  // namespace

ConvolutionGeometry::ConvolutionGeometry(const Shape& x, const Shape& w,
                                         const ConvolutionOptions& options)
    : batch(x[0]), in(x.back()), out(w[0]), groups(options.groups), axes(axes_of(x, w, options)) {
  if (!axes.depth.plain()) return;
  batch *= axes.depth.extent;
  axes.depth = {};
}

bool PlaneGeometry::covers(const ConvolutionGeometry& g) {
  const WindowAxis &h = g.axes.height, &w = g.axes.width;
  return !g.volumes() && !g.dilated() && g.groups == 1 && h.stride == w.stride &&
         h.padding == w.padding;
}

PlaneGeometry::PlaneGeometry(const ConvolutionGeometry& g)
    : batch(g.batch),
      height(g.axes.height.extent),
      width(g.axes.width.extent),
      in(g.in),
      out_height(g.axes.height.out),
      out_width(g.axes.width.out),
      out(g.out),
      kernel_height(g.axes.height.window),
      kernel_width(g.axes.width.window),
      stride(g.axes.height.stride),
      padding(g.axes.height.padding) {}

namespace {

void check_workspace(const Operands& check, const Stream& stream, const Tensor& workspace,
                     DType dtype, const Shape& x, const Shape& w,
                     const ConvolutionOptions& options) {
  const std::size_t needed =
      convolution_workspace_bytes(stream.device().type(), dtype, x, w, options);
  if (needed == 0) return;
  check.present("workspace", workspace);
  TRIREME_EXPECTS(workspace.bytes() >= needed,
                  "convolution: a workspace of {} bytes for x {} and w {}, which need {}",
                  workspace.bytes(), x.to_string(), w.to_string(), needed);
  TRIREME_EXPECTS(reinterpret_cast<std::uintptr_t>(workspace.data) % 64 == 0,
                  "convolution: the workspace is not aligned to 64 bytes");
}

// Includes products with padding.
double flops(const Tensor& y, const Tensor& w) {
  return 2.0 * static_cast<double>(y.count()) * static_cast<double>(w.count() / w.shape[0]);
}

}  // namespace

Shape convolution_output_shape(const Shape& x, const Shape& w, const ConvolutionOptions& options) {
  return axes_of(x, w, options).output_shape(x, w[0]);
}

std::size_t convolution_workspace_bytes(DeviceType device, DType dtype, const Shape& x,
                                        const Shape& w, const ConvolutionOptions& options) {
  if (device == DeviceType::cpu) return cpu::convolution_workspace_bytes(dtype, x, w, options);
  // A build without the CUDA back end plans for one that has it, with cuDNN.
  const bool cudnn = cuda_slot<&convolution_forward> == nullptr || !cuda::cudnn_version().empty();
  return cuda::workspace_bytes(dtype, ConvolutionGeometry(x, w, options), cudnn);
}

void convolution_forward(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& w,
                         const ConvolutionOptions& options, const Tensor& workspace) {
  const Operands check("convolution_forward");
  check.compute_dtype("x", x);
  check.present("w", w);
  check.dtype("w", w, x.dtype);
  check.is("y", y, x.dtype, convolution_output_shape(x.shape, w.shape, options));
  check.disjoint("y", y, "x", x);
  check.disjoint("y", y, "w", w);
  check.disjoint("workspace", workspace, "y", y);
  check.disjoint("workspace", workspace, "x", x);
  check_workspace(check, stream, workspace, x.dtype, x.shape, w.shape, options);
  TRIREME_DISPATCH(stream, convolution_forward,
                   reads(x, w).writes(y).flops(WorkRate::convolution, flops(y, w)), y, x, w,
                   options, workspace);
}

void convolution_backward_input(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& w,
                                const ConvolutionOptions& options, const Tensor& workspace,
                                const Tensor& addend) {
  const Operands check("convolution_backward_input");
  check.compute_dtype("dx", dx);
  check.present("w", w);
  check.dtype("w", w, dx.dtype);
  check.is("dy", dy, dx.dtype, convolution_output_shape(dx.shape, w.shape, options));
  check.disjoint("dx", dx, "dy", dy);
  check.disjoint("dx", dx, "w", w);
  if (!addend.empty()) {
    check.is("addend", addend, dx.dtype, dx.shape);
    check.disjoint("addend", addend, "dx", dx);
    check.disjoint("addend", addend, "workspace", workspace);
  }
  check.disjoint("workspace", workspace, "dx", dx);
  check.disjoint("workspace", workspace, "dy", dy);
  check_workspace(check, stream, workspace, dx.dtype, dx.shape, w.shape, options);
  const bool adds = !addend.empty();
  TRIREME_DISPATCH(stream, convolution_backward_input,
                   reads(dy, w, addend)
                       .reads_if(adds, dx)
                       .writes(dx)
                       .writes_if(adds, dx)
                       .flops(WorkRate::convolution, flops(dy, w))
                       .kernels(adds && !stream.policy().fused_epilogues ? 2 : 1),
                   dx, dy, w, options, workspace, addend);
}

void convolution_backward_weight(Stream& stream, const Tensor& dw, const Tensor& dy,
                                 const Tensor& x, const ConvolutionOptions& options,
                                 const Tensor& workspace) {
  const Operands check("convolution_backward_weight");
  check.compute_dtype("x", x);
  check.present("dw", dw);
  check.dtype("dw", dw, DType::f32);
  check.is("dy", dy, x.dtype, convolution_output_shape(x.shape, dw.shape, options));
  check.disjoint("dw", dw, "dy", dy);
  check.disjoint("dw", dw, "x", x);
  check.disjoint("workspace", workspace, "dw", dw);
  check_workspace(check, stream, workspace, x.dtype, x.shape, dw.shape, options);
  TRIREME_DISPATCH(stream, convolution_backward_weight,
                   reads(dy, x)
                       .updates(dw, dw)
                       .flops(WorkRate::convolution, flops(dy, dw))
                       .of_parameters()
                       .kernels(stream.policy().fused_epilogues ? 1 : 2),
                   dw, dy, x, options, workspace);
}

}  // namespace trireme::ops
