// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/random/init.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/portable_math.h"
#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/random/philox_block.h"

namespace trireme::ops::cpu {

namespace {

// Counter j of a block gives the normals of its elements j and 64 + j.
constexpr std::int64_t normal_block = 2 * philox_counters;
constexpr std::int64_t uniform_block = 4 * philox_counters;

void normals_of_block(float* out, const Philox& key, std::uint64_t parameter, std::uint64_t block,
                      double mean, double stddev) {
  PhiloxBlock random;
  philox_block(random, key, parameter, block);
  const std::uint32_t* const words = random.words;
#pragma omp simd
  for (std::int64_t j = 0; j < philox_counters; ++j) {
    const NormalPair pair =
        box_muller(words[j], words[philox_counters + j], words[2 * philox_counters + j],
                   words[3 * philox_counters + j]);
    out[j] = static_cast<float>(std::fma(stddev, pair.first, mean));
    out[philox_counters + j] = static_cast<float>(std::fma(stddev, pair.second, mean));
  }
}

void uniforms_of_block(float* out, const Philox& key, std::uint64_t parameter, std::uint64_t block,
                       double low, double width) {
  PhiloxBlock random;
  philox_block(random, key, parameter, block);
#pragma omp simd
  for (std::int64_t i = 0; i < uniform_block; ++i) {
    const auto uniform = static_cast<double>(Philox::uniform(random.words[i]));
    out[i] = static_cast<float>(std::fma(width, uniform, low));
  }
}

// Writes elements [first, first + n) of an infinite tensor generated block by block.
template <std::int64_t block, typename Make>
void fill_range(float* x, std::int64_t first, std::int64_t n, const Make& make) {
  alignas(64) float values[block];
  for (std::int64_t done = 0; done < n;) {
    const std::int64_t element = first + done;
    const std::int64_t offset = element % block;
    const std::int64_t count = std::min(block - offset, n - done);
    make(values, static_cast<std::uint64_t>(element / block));
    std::copy_n(values + offset, count, x + done);
    done += count;
  }
}

}  // namespace

void fill_normal(Stream& stream, const Tensor& x, std::uint64_t seed, std::uint64_t parameter,
                 std::int64_t first, float mean, float stddev) {
  enqueue(stream, [x = x.as<float>(), n = x.count(), seed, parameter, first, mean, stddev] {
    const Philox key = Philox::keyed(seed, RandomPurpose::init);
    fill_range<normal_block>(x, first, n, [&](float* values, std::uint64_t block) {
      normals_of_block(values, key, parameter, block, mean, stddev);
    });
  });
}

void fill_uniform(Stream& stream, const Tensor& x, std::uint64_t seed, std::uint64_t parameter,
                  std::int64_t first, float low, float high) {
  enqueue(stream, [x = x.as<float>(), n = x.count(), seed, parameter, first, low, high] {
    const Philox key = Philox::keyed(seed, RandomPurpose::init);
    const double width = static_cast<double>(high) - static_cast<double>(low);
    fill_range<uniform_block>(x, first, n, [&](float* values, std::uint64_t block) {
      uniforms_of_block(values, key, parameter, block, low, width);
    });
  });
}

void fill_constant(Stream& stream, const Tensor& x, float value) {
  enqueue(stream, [x = x.as<float>(), n = x.count(), value] { std::fill_n(x, n, value); });
}

}  // namespace trireme::ops::cpu
