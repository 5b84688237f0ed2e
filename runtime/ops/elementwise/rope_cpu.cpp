// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/elementwise/rope.h"

#include <optional>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/common/float_types.h"
#include "runtime/ops/common/scratch.h"
#include "runtime/ops/elementwise/rope_math.h"

namespace trireme::ops::cpu {
namespace {

// table(2, length, pairs): cosines, then sines. It stays, for all layers turn by the same angles,
// which cost more than the rotation.
const float* rotations(const RopeAngles& angles, std::int64_t length, std::int64_t pairs) {
  static thread_local ScratchBlock block;
  static thread_local std::optional<RopeAngles> made;
  static thread_local std::int64_t made_length = 0;
  const std::int64_t count = length * pairs;
  float* const table = block.floats(static_cast<std::size_t>(2 * count));
  if (made == angles && made_length == length) return table;
  for (std::int64_t i = 0; i < count; ++i) {
    const Rotation r = angles.rotation(i / pairs, i % pairs);
    table[i] = r.cosine;
    table[count + i] = r.sine;
  }
  made = angles;
  made_length = length;
  return table;
}

template <typename T>
struct Rope {
  T* qkv;
  std::int64_t batch;
  std::int64_t length;
  std::int64_t width;    // of a position's row
  std::int64_t rotated;  // heads: of queries and keys
  std::int64_t pairs;    // half a head's size
  RopeAngles angles;
  float direction;             // 1 forward, -1 back
  const std::int32_t* starts;  // of documents, (B, T); may be null

  void turn(T* head, const float* cosines, const float* sines) const {
    T* const other = head + pairs;
#pragma omp simd
    for (std::int64_t i = 0; i < pairs; ++i) {
      const float first = load(head[i]);
      const float second = load(other[i]);
      const Rotation r{cosines[i], sines[i] * direction};
      store(head[i], rotated_first(r, first, second));
      store(other[i], rotated_second(r, first, second));
    }
  }

  void operator()() const {
    const float* const cosines = rotations(angles, length, pairs);
    const float* const sines = cosines + length * pairs;
    for (std::int64_t row = 0; row < batch * length; ++row) {
      const std::int64_t start = starts == nullptr ? 0 : starts[row];
      const std::int64_t angle = (row % length - start) * pairs;
      for (std::int64_t head = 0; head < rotated; ++head)
        turn(qkv + row * width + head * 2 * pairs, cosines + angle, sines + angle);
    }
  }
};

void rotate(Stream& stream, const Tensor& qkv, const RopeOptions& options, float direction) {
  visit_compute_dtype(qkv.dtype, [&](auto type) {
    using T = decltype(type);
    const std::int64_t pairs = qkv.shape[2] / (options.heads + 2 * options.key_heads) / 2;
    enqueue(stream,
            Rope<T>{qkv.as<T>(), qkv.shape[0], qkv.shape[1], qkv.shape[2],
                    options.heads + options.key_heads, pairs, RopeAngles(options, pairs), direction,
                    options.document_starts.empty() ? nullptr
                                                    : options.document_starts.as<std::int32_t>()});
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
