// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/convolution/convolution_widened_cpu.h"

#include "runtime/ops/common/float_types.h"
#include "runtime/ops/convolution/convolution_dnnl_cpu.h"

namespace trireme::ops::cpu::widened {

namespace {

// A single sample, and its place in the workspace.
struct Sample {
  ConvolutionGeometry g;
  std::int64_t x_count, y_count, w_count;
  std::size_t library_bytes;

  explicit Sample(const ConvolutionGeometry& batch)
      : g(batch),
        x_count(g.in_pixels() * g.in),
        y_count(g.out_pixels() * g.out),
        w_count(g.out * g.taps()) {
    g.batch = 1;
    library_bytes = (by_dnnl::workspace_bytes(DType::f32, g) + 63) / 64 * 64;
  }
};

struct Parts {
  std::byte* library;
  float *w, *x, *y;

  Parts(const Sample& s, std::byte* workspace)
      : library(workspace),
        w(reinterpret_cast<float*>(workspace + s.library_bytes)),
        x(w + s.w_count),
        y(x + s.x_count) {}
};

template <typename To, typename From>
void convert(To* to, const From* from, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i)
    store(to[i], load(from[i]));
}

}  // namespace

std::size_t workspace_bytes(const ConvolutionGeometry& batch) {
  const Sample s(batch);
  return s.library_bytes +
         static_cast<std::size_t>(s.w_count + s.x_count + s.y_count) * sizeof(float);
}

template <typename T>
void forward(const ConvolutionGeometry& batch, T* y, const T* x, const T* w, std::byte* workspace) {
  const Sample s(batch);
  const Parts parts(s, workspace);
  convert(parts.w, w, s.w_count);
  for (std::int64_t n = 0; n < batch.batch; ++n) {
    convert(parts.x, x + n * s.x_count, s.x_count);
    by_dnnl::forward(DType::f32, s.g, parts.y, parts.x, parts.w, parts.library);
    convert(y + n * s.y_count, parts.y, s.y_count);
  }
}

template <typename T>
void backward_input(const ConvolutionGeometry& batch, T* dx, const T* dy, const T* w,
                    std::byte* workspace) {
  const Sample s(batch);
  const Parts parts(s, workspace);
  convert(parts.w, w, s.w_count);
  for (std::int64_t n = 0; n < batch.batch; ++n) {
    convert(parts.y, dy + n * s.y_count, s.y_count);
    by_dnnl::backward_input(DType::f32, s.g, parts.x, parts.y, parts.w, parts.library);
    convert(dx + n * s.x_count, parts.x, s.x_count);
  }
}

template <typename T>
void backward_weight(const ConvolutionGeometry& batch, float* dw, const T* dy, const T* x,
                     std::byte* workspace) {
  const Sample s(batch);
  const Parts parts(s, workspace);
  for (std::int64_t n = 0; n < batch.batch; ++n) {
    convert(parts.x, x + n * s.x_count, s.x_count);
    convert(parts.y, dy + n * s.y_count, s.y_count);
    by_dnnl::backward_weight(DType::f32, s.g, dw, parts.y, parts.x, parts.library);
  }
}

template void forward(const ConvolutionGeometry&, bf16*, const bf16*, const bf16*, std::byte*);
template void forward(const ConvolutionGeometry&, f16*, const f16*, const f16*, std::byte*);
template void backward_input(const ConvolutionGeometry&, bf16*, const bf16*, const bf16*,
                             std::byte*);
template void backward_input(const ConvolutionGeometry&, f16*, const f16*, const f16*, std::byte*);
template void backward_weight(const ConvolutionGeometry&, float*, const bf16*, const bf16*,
                              std::byte*);
template void backward_weight(const ConvolutionGeometry&, float*, const f16*, const f16*,
                              std::byte*);

}  // namespace trireme::ops::cpu::widened
