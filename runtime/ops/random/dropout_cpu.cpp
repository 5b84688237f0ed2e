// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/random/dropout.h"

#include <algorithm>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/common/float_types.h"
#include "runtime/ops/random/dropout_math.h"
#include "runtime/ops/random/philox_block.h"

namespace trireme::ops::cpu {

namespace {

// Elements drawn from one Philox block.
constexpr std::int64_t block = 4 * philox_counters;

template <typename T>
struct Dropout {
  T* y;
  const T* x;
  const std::int64_t* ids;
  const std::uint64_t* rng;
  std::uint64_t layer;
  float probability;
  std::int64_t first;  // index in the whole batch, sample after sample
  std::int64_t count;
  std::int64_t per_sample;  // elements

  // Elements [begin, end) of a sample.
  void drop(T* to, const T* from, const Philox& key, std::uint64_t sample, std::int64_t begin,
            std::int64_t end) const {
    const std::uint32_t threshold = dropout_threshold(probability);
    const float scale = 1.0F / (1.0F - probability);
    PhiloxBlock random;
    while (begin < end) {
      const std::int64_t index = begin / block;
      philox_block(random, key, sample, static_cast<std::uint64_t>(index));
      const std::uint32_t* const words = random.words + (begin - index * block);
      const std::int64_t n = std::min((index + 1) * block, end) - begin;
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i)
        store(to[i], words[i] >= threshold ? load(from[i]) * scale : 0.0F);
      begin += n;
      to += n;
      from += n;
    }
  }

  void operator()() const {
    const Philox key = dropout_key(rng[0], rng[1], layer);
    for (std::int64_t done = 0; done < count;) {
      const std::int64_t sample = (first + done) / per_sample;
      const std::int64_t begin = first + done - sample * per_sample;
      const std::int64_t end = std::min(per_sample, begin + count - done);
      drop(y + done, x + done, key, static_cast<std::uint64_t>(ids[sample]), begin, end);
      done += end - begin;
    }
  }
};

}  // namespace

void dropout(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& sample_ids,
             const Tensor& rng, std::uint64_t layer, float probability) {
  if (y.count() == 0) return;
  visit_compute_dtype(y.dtype, [&]<typename T>(T) {
    enqueue(stream,
            Dropout<T>{y.as<T>(), x.as<T>(), sample_ids.as<std::int64_t>(), rng.as<std::uint64_t>(),
                       layer, probability, 0, y.count(), y.count() / y.shape[0]});
  });
}

void dropout_rows(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& sample_ids,
                  const Tensor& rng, std::uint64_t layer, float probability, std::int64_t first_row,
                  std::int64_t rows_per_sample) {
  if (y.count() == 0) return;
  visit_compute_dtype(y.dtype, [&]<typename T>(T) {
    const std::int64_t columns = y.shape.back();
    enqueue(stream, Dropout<T>{y.as<T>(), x.as<T>(), sample_ids.as<std::int64_t>(),
                               rng.as<std::uint64_t>(), layer, probability, first_row * columns,
                               y.count(), rows_per_sample * columns});
  });
}

}  // namespace trireme::ops::cpu
