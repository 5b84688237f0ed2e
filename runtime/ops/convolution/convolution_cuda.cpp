// SPDX-License-Identifier: Apache-2.0
// Convolution on a GPU: by cuDNN if it has a plan for the shape, else by our own kernels.
#include <array>

#include "runtime/device/cuda_slot.h"
#include "runtime/ops/common/cudnn_graphs.h"
#include "runtime/ops/convolution/convolution.h"
#include "runtime/ops/convolution/convolution_kernels_cuda.h"
#include "runtime/ops/convolution/convolution_workspace.h"
#include "runtime/ops/elementwise/elementwise.h"

namespace trireme::ops::cuda {
namespace {

using Pass = ConvolutionGraph::Pass;

// Weight gradients are requested in f32, because they are accumulated. Null if this stream does not
// want `adds`.
const CudnnPlan* plan_for(const Stream& stream, Pass pass, DType dtype,
                          const ConvolutionGeometry& g, bool adds = false) {
  if (adds && !stream.policy().fused_epilogues) return nullptr;
  return cudnn_plan_for(
      stream, ConvolutionGraph{.pass = pass,
                               .dtype = dtype,
                               .result = pass == Pass::backward_weight ? DType::f32 : dtype,
                               .geometry = g,
                               .tf32 = stream.policy().matmul == MatmulPrecision::tf32,
                               .workspace_limit = plan_workspace_limit(dtype, g),
                               .adds = adds});
}

bool run(const CudnnPlan* plan, Stream& stream, const Tensor& a, const Tensor& b,
         const Tensor& result, const Tensor& workspace) {
  if (plan == nullptr) return false;
  const std::array<void*, 3> operands{a.data, b.data, result.data};
  plan->run(stream, operands, workspace.data);
  return true;
}

}  // namespace

void convolution_forward(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& w,
                         const ConvolutionOptions& options, const Tensor& workspace) {
  const ConvolutionGeometry g(x.shape, w.shape, options);
  if (!run(plan_for(stream, Pass::forward, x.dtype, g), stream, x, w, y, workspace))
    simt_convolution_forward(stream, g, y, x, w);
}

void convolution_backward_input(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& w,
                                const ConvolutionOptions& options, const Tensor& workspace,
                                const Tensor& addend) {
  const ConvolutionGeometry g(dx.shape, w.shape, options);
  const CudnnPlan* const fused =
      addend.empty() ? nullptr : plan_for(stream, Pass::backward_input, dx.dtype, g, true);
  if (fused != nullptr) {
    const std::array<void*, 4> operands{dy.data, w.data, addend.data, dx.data};
    fused->run(stream, operands, workspace.data);
    return;
  }
  if (!run(plan_for(stream, Pass::backward_input, dx.dtype, g), stream, dy, w, dx, workspace))
    simt_convolution_backward_input(stream, g, dx, dy, w);
  if (!addend.empty()) ops::add_in_place(stream, dx, addend);
}

void convolution_backward_weight(Stream& stream, const Tensor& dw, const Tensor& dy,
                                 const Tensor& x, const ConvolutionOptions& options,
                                 const Tensor& workspace) {
  const ConvolutionGeometry g(x.shape, dw.shape, options);
  if (const CudnnPlan* const fused =
          plan_for(stream, Pass::backward_weight, x.dtype, g, /*adds=*/true)) {
    const std::array<void*, 4> operands{dy.data, x.data, dw.data, dw.data};
    fused->run(stream, operands, workspace.data);
    return;
  }
  const CudnnPlan* const plan = plan_for(stream, Pass::backward_weight, x.dtype, g);
  if (plan == nullptr) {
    simt_convolution_backward_weight(stream, g, dw, dy, x, workspace);
    return;
  }
  const std::array<void*, 3> operands{dy.data, x.data, workspace.data};
  plan->run(stream, operands, workspace.data + gradient_bytes(g));
  add_weight_gradients(stream, dw, workspace.data, plan->result(), 1);
}

TRIREME_CUDA_PROVIDES(ops, convolution_forward, convolution_backward_input,
                      convolution_backward_weight);

}  // namespace trireme::ops::cuda
