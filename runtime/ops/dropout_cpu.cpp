// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/dropout_cpu.h"

#include <algorithm>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/dropout_math.h"
#include "runtime/ops/float_types.h"
#include "runtime/ops/philox_block.h"

namespace trireme::ops::cpu {

namespace {

template <typename T>
void drop_sample(T* y, const T* x, std::int64_t count, const Philox& key, std::uint64_t sample,
                 std::uint32_t threshold, float scale) {
  constexpr std::int64_t block = 4 * philox_counters;
  PhiloxBlock random;
  for (std::int64_t first = 0; first < count; first += block) {
    philox_block(random, key, sample, static_cast<std::uint64_t>(first / block));
    const std::uint32_t* const words = random.words;
    const std::int64_t n = std::min(block, count - first);
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
      store(y[first + i], words[i] >= threshold ? load(x[first + i]) * scale : 0.0F);
    }
  }
}

}  // namespace

void dropout(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& sample_ids,
             const Tensor& rng, std::uint64_t layer, float probability) {
  visit_compute_dtype(y.dtype, [&](auto type) {
    using T = decltype(type);
    const std::int64_t samples = y.shape[0];
    const std::int64_t per_sample = samples == 0 ? 0 : y.count() / samples;
    enqueue(stream, [y = y.as<T>(), x = x.as<T>(), ids = sample_ids.as<std::int64_t>(),
                     rng = rng.as<std::uint64_t>(), samples, per_sample, layer, probability] {
      const Philox key = dropout_key(rng[0], rng[1], layer);
      const std::uint32_t threshold = dropout_threshold(probability);
      const float scale = 1.0F / (1.0F - probability);
      for (std::int64_t s = 0; s < samples; ++s) {
        drop_sample(y + s * per_sample, x + s * per_sample, per_sample, key,
                    static_cast<std::uint64_t>(ids[s]), threshold, scale);
      }
    });
  });
}

}  // namespace trireme::ops::cpu
