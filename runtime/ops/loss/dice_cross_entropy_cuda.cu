// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/common/arrivals_cuda.h"
#include "runtime/ops/loss/cross_entropy_row_cuda.h"
#include "runtime/ops/loss/dice_cross_entropy_math.h"

namespace trireme::ops::cuda {
namespace {

constexpr int dice_threads = 1024, pixel_threads = 256;

template <typename T>
struct RowExp {
  __device__ float operator()(float x) const { return row_exp<T>(x); }
};

// A block for each class of a sample. The last of a sample's blocks has dice(samples) and
// slopes(samples, classes).
template <typename T>
__global__ void __launch_bounds__(dice_threads)
    dice_kernel(float* dice, DiceSlope* slopes, ClassOverlap* overlaps, unsigned* arrivals,
                DicePixels<T> pixels) {
  const std::int64_t size = pixels.options.rows_per_weight, classes = pixels.options.classes;
  const std::int64_t sample = blockIdx.x / classes, own_class = blockIdx.x % classes;
  ClassOverlap own;
  for (std::int64_t i = sample * size + threadIdx.x; i < (sample + 1) * size; i += dice_threads)
    if (pixels.targets[i] >= 0) pixels.add_to(own, i, own_class, RowExp<T>{});
  own.both = block_reduce<dice_threads>(own.both, 0.0, Sum{});
  own.predicted = block_reduce<dice_threads>(own.predicted, 0.0, Sum{});
  own.actual = block_reduce<dice_threads>(own.actual, 0.0, Sum{});
  if (threadIdx.x == 0) overlaps[blockIdx.x] = own;
  if (last_to_arrive(arrivals + sample, static_cast<unsigned>(classes)) && threadIdx.x == 0)
    dice[sample] = dice_loss(slopes + sample * classes, overlaps + sample * classes, classes);
}

template <typename T>
__global__ void dice_pixels_kernel(DicePixels<T> pixels, const float* dice, const DiceSlope* slopes,
                                   std::int64_t rows) {
  const std::int64_t all = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; index < rows; index += all) {
    const std::int64_t sample = index / pixels.options.rows_per_weight;
    pixels.run(index, dice[sample], slopes + sample * pixels.options.classes, RowExp<T>{});
  }
}

}  // namespace

void dice_cross_entropy(Stream& stream, const Tensor& losses, const Tensor& correct,
                        const Tensor& logits, const Tensor& targets,
                        const CrossEntropyOptions& options) {
  visit_compute_dtype(logits.dtype, [&]<typename T>(T) {
    const DicePixels<T> pixels = dice_pixels<T>(losses, correct, logits, targets, options);
    const std::int64_t rows = logits.shape[0], samples = rows / options.rows_per_weight;
    const auto values = static_cast<std::size_t>(samples * options.classes);
    CudaStream& cuda = CudaStream::of(stream);
    auto* const overlaps = reinterpret_cast<ClassOverlap*>(
        cuda.scratch(values * (sizeof(ClassOverlap) + sizeof(DiceSlope)) +
                     static_cast<std::size_t>(samples) * sizeof(float)));
    auto* const slopes = reinterpret_cast<DiceSlope*>(overlaps + values);
    auto* const dice = reinterpret_cast<float*>(slopes + values);
    launch(stream, {.blocks = samples * options.classes, .threads = dice_threads}, dice_kernel<T>,
           dice, slopes, overlaps, cuda.arrivals(static_cast<std::size_t>(samples)), pixels);
    launch(stream, grid_for(stream, rows, pixel_threads, pixel_threads), dice_pixels_kernel<T>,
           pixels, dice, slopes, rows);
  });
}

TRIREME_CUDA_PROVIDES(ops, dice_cross_entropy);

}  // namespace trireme::ops::cuda
