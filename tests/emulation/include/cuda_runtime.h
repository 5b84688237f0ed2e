// SPDX-License-Identifier: Apache-2.0
// Replaces CUDA's header of this name when kernel sources are compiled for the host: the runtime
// API (runtime_api.h) and the language: qualifiers, built-in variables, barriers, shuffles,
// atomics. __shared__ variables are per host thread, which runs blocks one after another.
#pragma once

#include <atomic>
#include <cmath>

#include "tests/emulation/runtime_api.h"

namespace emulated = trireme::emulated;

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static thread_local
#define __align__(bytes) alignas(bytes)

struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};

inline void __syncthreads() {
  trireme::emulated::block_barrier();
}
inline void __syncwarp(unsigned mask = ~0U) {
  trireme::emulated::warp_barrier(mask);
}
inline void __threadfence() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
}
template <typename T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
  const int first = trireme::emulated::lane_index() / width * width;
  return trireme::emulated::exchange_value(mask, value, first + lane % width);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32) {
  const int here = trireme::emulated::lane_index();
  const int source = here ^ lanes;
  return trireme::emulated::exchange_value(mask, value,
                                           source / width > here / width ? here : source);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, int lanes, int width = 32) {
  const int here = trireme::emulated::lane_index();
  return trireme::emulated::exchange_value(mask, value,
                                           here % width + lanes < width ? here + lanes : here);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, int lanes, int width = 32) {
  const int here = trireme::emulated::lane_index();
  return trireme::emulated::exchange_value(mask, value,
                                           here % width >= lanes ? here - lanes : here);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  return trireme::emulated::ballot(mask, predicate != 0);
}
inline int __any_sync(unsigned mask, int predicate) {
  return __ballot_sync(mask, predicate) != 0 ? 1 : 0;
}
inline int __popc(unsigned value) {
  return std::popcount(value);
}

// Atomics are ordered with each other, and order nothing else.
template <typename T>
T atomicAdd(T* address, T value) {
  return std::atomic_ref<T>(*address).fetch_add(value, std::memory_order_relaxed);
}
template <typename T>
T atomicMax(T* address, T value) {
  std::atomic_ref<T> cell(*address);
  T seen = cell.load(std::memory_order_relaxed);
  while (seen < value && !cell.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
  return seen;
}
template <typename T>
T atomicOr(T* address, T value) {
  return std::atomic_ref<T>(*address).fetch_or(value, std::memory_order_relaxed);
}

template <typename T>
T __ldg(const T* address) {
  return *address;
}
template <typename T>
T __ldcs(const T* address) {
  return *address;
}
template <typename T>
void __stcs(T* address, T value) {
  *address = value;
}
inline float rsqrtf(float x) {
  return 1.0F / std::sqrt(x);
}
inline float __uint_as_float(unsigned value) {
  return std::bit_cast<float>(value);
}
inline unsigned __float_as_uint(float value) {
  return std::bit_cast<unsigned>(value);
}
