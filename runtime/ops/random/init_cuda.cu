// SPDX-License-Identifier: Apache-2.0
// One thread per Philox counter: counter j of a block of 64 makes elements j, 64 + j, ..., so a
// warp writes adjacent elements. Nothing can be contracted, so the bits are the CPU's.
#include "runtime/base/portable_math.h"
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/common/transform_cuda.h"
#include "runtime/ops/random/init.h"
#include "runtime/ops/random/philox_block.h"

namespace trireme::ops::cuda {
namespace {

using Words = std::array<std::uint32_t, 4>;

struct Normal {
  static constexpr int elements = 2;  // of a counter
  double mean, stddev;

  __device__ void operator()(float (&out)[elements], const Words& words) const {
    const NormalPair pair = box_muller(words[0], words[1], words[2], words[3]);
    out[0] = static_cast<float>(std::fma(stddev, pair.first, mean));
    out[1] = static_cast<float>(std::fma(stddev, pair.second, mean));
  }
};

struct Uniform {
  static constexpr int elements = 4;
  double low, width;

  __device__ void operator()(float (&out)[elements], const Words& words) const {
    for (int i = 0; i < elements; ++i) {
      const auto uniform = static_cast<double>(Philox::uniform(words[i]));
      out[i] = static_cast<float>(std::fma(width, uniform, low));
    }
  }
};

// Elements [first, first + count) of an infinite tensor with blocks of 64 counters.
template <typename Make>
__global__ void fill_kernel(float* x, std::int64_t first, std::int64_t count, Philox key,
                            std::uint64_t parameter, Make make) {
  constexpr std::int64_t block = Make::elements * philox_counters;
  const std::int64_t begin = first / block * philox_counters;
  const std::int64_t end = ceil_div(first + count, block) * philox_counters;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t counter =
           begin + static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       counter < end; counter += stride) {
    float values[Make::elements];
    make(values, key(parameter, static_cast<std::uint64_t>(counter)));
    const std::int64_t element =
        counter / philox_counters * block + counter % philox_counters - first;
    for (int i = 0; i < Make::elements; ++i) {
      const std::int64_t at = element + i * philox_counters;
      if (at >= 0 && at < count) x[at] = values[i];
    }
  }
}

template <typename Make>
void fill(Stream& stream, const Tensor& x, std::uint64_t seed, std::uint64_t parameter,
          std::int64_t first, const Make& make) {
  constexpr std::int64_t block = Make::elements * philox_counters;
  const std::int64_t blocks = ceil_div(first + x.count(), block) - first / block;
  constexpr int threads = 256;
  launch(stream, grid_for(stream, blocks * philox_counters, threads, threads), fill_kernel<Make>,
         x.as<float>(), first, x.count(), Philox::keyed(seed, RandomPurpose::init), parameter,
         make);
}

struct Constant {
  float value;
  __device__ float operator()() const { return value; }
};

}  // namespace

void fill_normal(Stream& stream, const Tensor& x, std::uint64_t seed, std::uint64_t parameter,
                 std::int64_t first, float mean, float stddev) {
  fill(stream, x, seed, parameter, first, Normal{mean, stddev});
}

void fill_uniform(Stream& stream, const Tensor& x, std::uint64_t seed, std::uint64_t parameter,
                  std::int64_t first, float low, float high) {
  fill(stream, x, seed, parameter, first,
       Uniform{low, static_cast<double>(high) - static_cast<double>(low)});
}

void fill_constant(Stream& stream, const Tensor& x, float value) {
  transform(stream, x.as<float>(), x.count(), Constant{value});
}

TRIREME_CUDA_PROVIDES(ops, fill_normal, fill_uniform, fill_constant);

}  // namespace trireme::ops::cuda
