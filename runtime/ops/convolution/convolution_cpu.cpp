// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/convolution/convolution_workspace.h"

#include "runtime/device/cpu/cpu_features.h"
#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/common/float_types.h"
#include "runtime/ops/convolution/convolution_direct_cpu.h"
#include "runtime/ops/convolution/convolution_dnnl_cpu.h"
#include "runtime/ops/convolution/convolution_widened_cpu.h"
#include "runtime/ops/elementwise/elementwise.h"

namespace trireme::ops::cpu {

namespace {

// Images in f32, and in bf16 if the processor does not multiply it, run faster on our kernels:
// scripts/measurements/convolution_cpu.txt. oneDNN has all else but f16.
enum class Path : std::uint8_t { direct, dnnl, widened };

Path path_of(DType dtype, const ConvolutionGeometry& g) {
  static const bool native = cpu_has_bf16();
  const bool bf16_here = dtype == DType::bf16 && native;
  if (bf16_here) return Path::dnnl;
  if (PlaneGeometry::covers(g)) return Path::direct;
  return dtype == DType::f32 ? Path::dnnl : Path::widened;
}

}  // namespace

std::size_t convolution_workspace_bytes(DType dtype, const Shape& x, const Shape& w,
                                        const ConvolutionOptions& options) {
  const ConvolutionGeometry g(x, w, options);
  switch (path_of(dtype, g)) {
    case Path::direct:
      return direct::workspace_bytes(dtype, PlaneGeometry(g));
    case Path::dnnl:
      return by_dnnl::workspace_bytes(dtype, g);
    case Path::widened:
      break;
  }
  return widened::workspace_bytes(g);
}

void convolution_forward(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& w,
                         const ConvolutionOptions& options, const Tensor& workspace) {
  const ConvolutionGeometry g(x.shape, w.shape, options);
  const Path path = path_of(x.dtype, g);
  if (path == Path::dnnl) {
    enqueue(stream,
            [g, dtype = x.dtype, y = y.data, x = x.data, w = w.data, workspace = workspace.data] {
              by_dnnl::forward(dtype, g, y, x, w, workspace);
            });
    return;
  }
  visit_compute_dtype(x.dtype, [&]<typename T>(T) {
    enqueue(stream,
            [g, path, y = y.as<T>(), x = x.as<T>(), w = w.as<T>(), workspace = workspace.data] {
              if (path == Path::direct)
                return direct::forward(PlaneGeometry(g), y, x, w, workspace);
              if constexpr (!std::is_same_v<T, float>) widened::forward(g, y, x, w, workspace);
            });
  });
}

void convolution_backward_input(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& w,
                                const ConvolutionOptions& options, const Tensor& workspace,
                                const Tensor& addend) {
  const ConvolutionGeometry g(dx.shape, w.shape, options);
  const Path path = path_of(dx.dtype, g);
  if (path == Path::dnnl) {
    enqueue(stream, [g, dtype = dx.dtype, dx = dx.data, dy = dy.data, w = w.data,
                     workspace = workspace.data] {
      by_dnnl::backward_input(dtype, g, dx, dy, w, workspace);
    });
  } else {
    visit_compute_dtype(dx.dtype, [&]<typename T>(T) {
      enqueue(stream, [g, path, dx = dx.as<T>(), dy = dy.as<T>(), w = w.as<T>(),
                       workspace = workspace.data] {
        if (path == Path::direct)
          return direct::backward_input(PlaneGeometry(g), dx, dy, w, workspace);
        if constexpr (!std::is_same_v<T, float>) widened::backward_input(g, dx, dy, w, workspace);
      });
    });
  }
  if (!addend.empty()) ops::add_in_place(stream, dx, addend);
}

void convolution_backward_weight(Stream& stream, const Tensor& dw, const Tensor& dy,
                                 const Tensor& x, const ConvolutionOptions& options,
                                 const Tensor& workspace) {
  const ConvolutionGeometry g(x.shape, dw.shape, options);
  const Path path = path_of(x.dtype, g);
  if (path == Path::dnnl) {
    enqueue(stream, [g, dtype = x.dtype, dw = dw.as<float>(), dy = dy.data, x = x.data,
                     workspace = workspace.data] {
      by_dnnl::backward_weight(dtype, g, dw, dy, x, workspace);
    });
    return;
  }
  visit_compute_dtype(x.dtype, [&]<typename T>(T) {
    enqueue(stream, [g, path, dw = dw.as<float>(), dy = dy.as<T>(), x = x.as<T>(),
                     workspace = workspace.data] {
      if (path == Path::direct)
        return direct::backward_weight(PlaneGeometry(g), dw, dy, x, workspace);
      if constexpr (!std::is_same_v<T, float>) widened::backward_weight(g, dw, dy, x, workspace);
    });
  });
}

}  // namespace trireme::ops::cpu
