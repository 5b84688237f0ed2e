// SPDX-License-Identifier: Apache-2.0
// Private to the CUDA kernels: matmuls in f32 by SIMT, for cases that the libraries do not support.
// A block computes 64 x 64 results, gathering both factors into shared memory 32 terms at a time;
// every result is one sum in a fixed order.
#pragma once

#include "runtime/ops/common/launch_cuda.h"

namespace trireme::ops::cuda {

constexpr int tile = 64;
constexpr int depth = 32;
constexpr int side = 16;  // threads along a side of the tile; each computes 4 x 4 results
constexpr int threads = side * side;
constexpr int reach = tile / side;

// One factor: [term][row or column of the tile]; the odd pitch avoids bank conflicts.
using Panel = float[depth][tile + 1];

// panel[term][place] = at(place, term), adjacent threads on adjacent terms ...
template <typename At>
__device__ void fill_along_terms(Panel& panel, const At& at) {
  const int term = static_cast<int>(threadIdx.x) % depth;
  for (int place = static_cast<int>(threadIdx.x) / depth; place < tile; place += threads / depth)
    panel[term][place] = at(place, term);
}

// ... or on adjacent places.
template <typename At>
__device__ void fill_along_places(Panel& panel, const At& at) {
  const int place = static_cast<int>(threadIdx.x) % tile;
  for (int term = static_cast<int>(threadIdx.x) / tile; term < depth; term += threads / tile)
    panel[term][place] = at(place, term);
}

struct Sums {
  float values[reach][reach] = {};

  // The first `terms` of the panels.
  __device__ void add(const Panel& rows, const Panel& columns, int terms = depth) {
    const int row = static_cast<int>(threadIdx.x) / side;
    const int column = static_cast<int>(threadIdx.x) % side;
    for (int term = 0; term < terms; ++term) {
      float a[reach], b[reach];
#pragma unroll
      for (int i = 0; i < reach; ++i) {
        a[i] = rows[term][row + side * i];
        b[i] = columns[term][column + side * i];
      }
#pragma unroll
      for (int i = 0; i < reach; ++i) {
#pragma unroll
        for (int j = 0; j < reach; ++j)
          values[i][j] += a[i] * b[j];
      }
    }
  }

  // Continues from at(row, column).
  template <typename At>
  __device__ void start(const At& at) {
    const int row = static_cast<int>(threadIdx.x) / side;
    const int column = static_cast<int>(threadIdx.x) % side;
#pragma unroll
    for (int i = 0; i < reach; ++i) {
#pragma unroll
      for (int j = 0; j < reach; ++j)
        values[i][j] = at(row + side * i, column + side * j);
    }
  }

  // to(row, column, sum) for each result of this thread.
  template <typename To>
  __device__ void give(const To& to) const {
    const int row = static_cast<int>(threadIdx.x) / side;
    const int column = static_cast<int>(threadIdx.x) % side;
#pragma unroll
    for (int i = 0; i < reach; ++i) {
#pragma unroll
      for (int j = 0; j < reach; ++j)
        to(row + side * i, column + side * j, values[i][j]);
    }
  }
};

}  // namespace trireme::ops::cuda
