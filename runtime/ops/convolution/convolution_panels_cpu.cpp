// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/convolution/convolution_direct_cpu.h"

#include "runtime/ops/convolution/convolution_strips_cpu.h"

namespace trireme::ops::cpu::direct {

template <typename T>
void pack_forward(const PlaneGeometry& g, float* panels, const T* w) {
  const std::int64_t depth = g.kernel_height * g.kernel_width * g.in;
  for (std::int64_t channel = 0; channel < g.out;) {
    const std::int64_t width = width_of_block(channel, g.out);
    const std::int64_t valid = std::min(width, g.out - channel);
    const T* const from = w + channel * depth;
    for (std::int64_t k = 0; k < depth; ++k, panels += width) {
      for (std::int64_t c = 0; c < valid; ++c)
        panels[c] = load(from[c * depth + k]);
      std::fill(panels + valid, panels + width, 0.0F);
    }
    channel += width;
  }
}

template <typename T>
float* pack_backward(const PlaneGeometry& g, const TapClass& vertical, const TapClass& horizontal,
                     float* panels, const T* w) {
  const std::int64_t filter = g.kernel_height * g.kernel_width * g.in;
  for (std::int64_t channel = 0; channel < g.in;) {
    const std::int64_t width = width_of_block(channel, g.in);
    const std::int64_t valid = std::min(width, g.in - channel);
    for (std::int64_t th = vertical.taps - 1; th >= 0; --th) {
      for (std::int64_t tw = horizontal.taps - 1; tw >= 0; --tw) {
        const std::int64_t kh = vertical.residue + g.stride * th;
        const std::int64_t kw = horizontal.residue + g.stride * tw;
        const T* from = w + (kh * g.kernel_width + kw) * g.in + channel;
        for (std::int64_t o = 0; o < g.out; ++o, from += filter, panels += width) {
#pragma omp simd
          for (std::int64_t c = 0; c < valid; ++c)
            panels[c] = load(from[c]);
          std::fill(panels + valid, panels + width, 0.0F);
        }
      }
    }
    channel += width;
  }
  return panels;
}

template void pack_forward(const PlaneGeometry&, float*, const float*);
template void pack_forward(const PlaneGeometry&, float*, const bf16*);
template void pack_forward(const PlaneGeometry&, float*, const f16*);
template float* pack_backward(const PlaneGeometry&, const TapClass&, const TapClass&, float*,
                              const float*);
template float* pack_backward(const PlaneGeometry&, const TapClass&, const TapClass&, float*,
                              const bf16*);
template float* pack_backward(const PlaneGeometry&, const TapClass&, const TapClass&, float*,
                              const f16*);

}  // namespace trireme::ops::cpu::direct
