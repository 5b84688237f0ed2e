// SPDX-License-Identifier: Apache-2.0
// Replaces CUDA's header of this name: products of a warp's 16 x 16 fragments on tensor cores.
// Every lane holds both factors whole and eight of the sums. As on a tensor core, bits depend on
// which terms share a product: a sum is rounded once for its 16 terms.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <type_traits>

#include "cuda_runtime.h"
#include "runtime/base/dtype.h"

using __nv_bfloat16 = trireme::bf16;
using __half = trireme::f16;

namespace nvcuda::wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };

constexpr int emulated_side = 16, emulated_sums = 8;

template <typename Use, int m, int n, int k, typename T, typename Layout = void>
struct fragment {
  static_assert(m == emulated_side && n == emulated_side && k == emulated_side);
  float values[emulated_side][emulated_side];
};
template <int m, int n, int k>
struct fragment<accumulator, m, n, k, float> {
  static_assert(m == emulated_side && n == emulated_side && k == emulated_side);
  float values[emulated_sums];
};

// What the programming guide demands of a fragment's memory.
template <typename T>
void emulated_check(const T* from, unsigned stride) {
  if (reinterpret_cast<std::uintptr_t>(from) % 32 == 0 && stride * sizeof(T) % 16 == 0) return;
  std::fprintf(stderr, "a fragment at an unaligned address, or with a stride of %u\n", stride);
  std::abort();
}

template <typename Sum>
void fill_fragment(Sum& sum, float value) {
  for (float& each : sum.values)
    each = value;
}

template <typename Use, int m, int n, int k, typename T, typename Layout>
void load_matrix_sync(fragment<Use, m, n, k, T, Layout>& to, const T* from, unsigned stride) {
  emulated_check(from, stride);
  __syncwarp();
  for (unsigned i = 0; i < emulated_side; ++i) {
    for (unsigned j = 0; j < emulated_side; ++j)
      to.values[i][j] = static_cast<float>(
          std::is_same_v<Layout, row_major> ? from[i * stride + j] : from[j * stride + i]);
  }
  __syncwarp();
}

template <typename Sum, typename A, typename B>
void mma_sync(Sum& to, const A& a, const B& b, const Sum& from) {
  __syncwarp();
  const int first = trireme::emulated::lane_index() * emulated_sums;
  for (int i = 0; i < emulated_sums; ++i) {
    const int row = (first + i) / emulated_side, column = (first + i) % emulated_side;
    double sum = from.values[i];
    for (int term = 0; term < emulated_side; ++term)
      sum += double{a.values[row][term]} * double{b.values[term][column]};
    to.values[i] = static_cast<float>(sum);
  }
}

template <typename Sum>
void store_matrix_sync(float* to, const Sum& from, unsigned stride, layout_t layout) {
  emulated_check(to, stride);
  __syncwarp();
  const int first = trireme::emulated::lane_index() * emulated_sums;
  for (int i = 0; i < emulated_sums; ++i) {
    const auto row = static_cast<unsigned>((first + i) / emulated_side);
    const auto column = static_cast<unsigned>((first + i) % emulated_side);
    to[layout == mem_row_major ? row * stride + column : column * stride + row] = from.values[i];
  }
  __syncwarp();
}

}  // namespace nvcuda::wmma
