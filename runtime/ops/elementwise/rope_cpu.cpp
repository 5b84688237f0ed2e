// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/elementwise/rope.h"

#include <algorithm>
#include <optional>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/common/float_types.h"
#include "runtime/ops/common/row_positions.h"
#include "runtime/ops/common/scratch.h"
#include "runtime/ops/common/simd_cpu.h"
#include "runtime/ops/elementwise/rope_math.h"

namespace trireme::ops::cpu {
namespace {

// (positions, pairs).
struct Rotations {
  const float* cosines;
  const float* sines;
};

// Of `length` positions at least. Kept, because all layers, and all blocks of a sequence, use the
// same angles, which cost more than the rotation.
Rotations rotations(const RopeAngles& angles, std::int64_t length, std::int64_t pairs) {
  static thread_local ScratchBlock block;
  static thread_local std::optional<RopeAngles> made;
  static thread_local std::int64_t made_length = 0;
  const bool kept = made == angles && made_length >= length;
  if (!kept) made_length = length;
  const std::int64_t count = made_length * pairs;
  float* const table = block.floats(static_cast<std::size_t>(2 * count));
  for (std::int64_t i = 0; !kept && i < count; ++i) {
    const Rotation r = angles.rotation(i / pairs, i % pairs);
    table[i] = r.cosine;
    table[count + i] = r.sine;
  }
  made = angles;
  return {table, table + count};
}

template <typename T>
struct Rope {
  T* qkv;
  std::int64_t rows;
  RowPositions positions;
  std::int64_t width;    // of a position's row
  std::int64_t rotated;  // heads: of queries and keys
  std::int64_t pairs;    // half a head's size
  RopeAngles angles;
  float direction;  // 1 forward, -1 back

  void turn(T* head, const float* cosines, const float* sines) const {
    T* const other = head + pairs;
    std::int64_t i = 0;
    for (; i + lanes <= pairs; i += lanes) {
      float first[lanes], second[lanes];
      store_vector(first, load_vector(head + i));
      store_vector(second, load_vector(other + i));
      turn_all(first, second, cosines + i, sines + i);
      store_vector(head + i, load_vector(first));
      store_vector(other + i, load_vector(second));
    }
    for (; i < pairs; ++i) {
      const float first = load(head[i]);
      const float second = load(other[i]);
      const Rotation r{cosines[i], sines[i] * direction};
      store(head[i], rotated_first(r, first, second));
      store(other[i], rotated_second(r, first, second));
    }
  }

  // Float arrays of constant length, because the compiler does not vectorise loops that convert
  // elements, nor such loops of unknown length.
  [[gnu::always_inline]] void turn_all(float (&first)[lanes], float (&second)[lanes],
                                       const float* cosines, const float* sines) const {
    float turned_first[lanes], turned_second[lanes];
    for (int i = 0; i < lanes; ++i) {
      const Rotation r{cosines[i], sines[i] * direction};
      turned_first[i] = rotated_first(r, first[i], second[i]);
      turned_second[i] = rotated_second(r, first[i], second[i]);
    }
    std::copy_n(turned_first, lanes, first);
    std::copy_n(turned_second, lanes, second);
  }

  void operator()() const {
    const auto [cosines, sines] = rotations(angles, positions.count, pairs);
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t angle = positions(row) * pairs;
      for (std::int64_t head = 0; head < rotated; ++head)
        turn(qkv + row * width + head * 2 * pairs, cosines + angle, sines + angle);
    }
  }
};

void rotate(Stream& stream, const Tensor& qkv, const RopeOptions& options,
            const RowPositions& positions, float direction) {
  visit_compute_dtype(qkv.dtype, [&]<typename T>(T) {
    const std::int64_t pairs = qkv.shape[2] / (options.heads + 2 * options.kv_heads) / 2;
    enqueue(stream, Rope<T>{qkv.as<T>(), qkv.shape.rows(), positions, qkv.shape[2],
                            options.heads + options.kv_heads, pairs, RopeAngles(options, pairs),
                            direction});
  });
}

}  // namespace

void rope_forward(Stream& stream, const Tensor& qkv, const RopeOptions& options,
                  const Tensor& spans, std::int64_t positions) {
  const std::int64_t length = qkv.shape[1];
  rotate(stream, qkv, options,
         {spans, length, spans.empty() ? options.runs.end(length) : positions,
          options.document_starts, options.runs},
         1.0F);
}

void rope_backward(Stream& stream, const Tensor& dqkv, const RopeOptions& options) {
  const std::int64_t length = dqkv.shape[1];
  rotate(stream, dqkv, options,
         {{}, length, options.runs.end(length), options.document_starts, options.runs}, -1.0F);
}

}  // namespace trireme::ops::cpu
