// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/elementwise/rope.h"

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/common/float_types.h"
#include "runtime/ops/common/scratch.h"
#include "runtime/ops/elementwise/rope_math.h"

namespace trireme::ops::cpu {
namespace {

template <typename T>
struct Rope {
  T* qkv;
  std::int64_t batch;
  std::int64_t length;
  std::int64_t width;    // of a position's row
  std::int64_t rotated;  // heads: of queries and keys
  std::int64_t pairs;    // half a head's size
  RopeAngles angles;
  float direction;  // 1 forward, -1 back

  void turn(T* head, const float* cosines, const float* sines) const {
    T* const other = head + pairs;
#pragma omp simd
    for (std::int64_t i = 0; i < pairs; ++i) {
      const float first = load(head[i]);
      const float second = load(other[i]);
      const Rotation r{cosines[i], sines[i]};
      store(head[i], rotated_first(r, first, second));
      store(other[i], rotated_second(r, first, second));
    }
  }

  void operator()() const {
    static thread_local ScratchBlock block;
    float* const cosines = block.floats(static_cast<std::size_t>(2 * pairs));
    float* const sines = cosines + pairs;
    for (std::int64_t t = 0; t < length; ++t) {
      for (std::int64_t i = 0; i < pairs; ++i) {
        const Rotation r = angles.rotation(t, i);
        cosines[i] = r.cosine;
        sines[i] = r.sine * direction;
      }
      for (std::int64_t b = 0; b < batch; ++b) {
        T* const row = qkv + (b * length + t) * width;
        for (std::int64_t head = 0; head < rotated; ++head)
          turn(row + head * 2 * pairs, cosines, sines);
      }
    }
  }
};

void rotate(Stream& stream, const Tensor& qkv, const RopeOptions& options, float direction) {
  visit_compute_dtype(qkv.dtype, [&](auto type) {
    using T = decltype(type);
    const std::int64_t pairs = qkv.shape[2] / (options.heads + 2 * options.key_heads) / 2;
    enqueue(stream, Rope<T>{qkv.as<T>(), qkv.shape[0], qkv.shape[1], qkv.shape[2],
                            options.heads + options.key_heads, pairs, RopeAngles(options, pairs),
                            direction});
  });
}

}  // namespace

void rope_forward(Stream& stream, const Tensor& qkv, const RopeOptions& options) {
  rotate(stream, qkv, options, 1.0F);
}

void rope_backward(Stream& stream, const Tensor& dqkv, const RopeOptions& options) {
  rotate(stream, dqkv, options, -1.0F);
}

}  // namespace trireme::ops::cpu
