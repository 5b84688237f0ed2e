// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/common/row_positions.h"
#include "runtime/ops/common/rows_cuda.h"
#include "runtime/ops/elementwise/rope.h"
#include "runtime/ops/elementwise/rope_math.h"

namespace trireme::ops::cuda {
namespace {

struct Sizes {
  std::int64_t length;         // number of rows with distinct positions
  std::int64_t width;          // of a position's row
  std::int64_t rotated;        // heads: of queries and keys
  std::int64_t pairs;          // half a head's size
  const std::int32_t* starts;  // of documents, (B, T), if the table lacks them; may be null
};

// table(2, length, D / 2): cosines, then sines. One for all heads, and for all samples at the same
// positions, because the angles cost more than the rotation.
__global__ void angles_kernel(float* table, Sizes sizes, RowPositions positions, RopeAngles angles,
                              float direction) {
  const std::int64_t count = sizes.length * sizes.pairs;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    const Rotation r = angles.rotation(positions(i / sizes.pairs), i % sizes.pairs);
    table[i] = r.cosine;
    table[count + i] = r.sine * direction;
  }
}

// A "row" of the packs is one head of one position: (B * T * rotated, D / 2).
template <bool aligned, typename T>
__global__ void rotate_kernel(T* qkv, const float* table, Sizes sizes, RowPacks packs) {
  constexpr int width = pack_width<T>;
  packs.each([&](std::int64_t item, std::int64_t index) {
    const std::int64_t column = index * width;
    const std::int64_t head = static_cast<unsigned>(item) % static_cast<unsigned>(sizes.rotated);
    const std::int64_t row = static_cast<unsigned>(item) / static_cast<unsigned>(sizes.rotated);
    std::int64_t t = static_cast<unsigned>(row) % static_cast<unsigned>(sizes.length);
    if (sizes.starts != nullptr) t -= sizes.starts[row];
    T* const firsts = qkv + row * sizes.width + head * 2 * sizes.pairs;
    T* const seconds = firsts + sizes.pairs;
    const float* const cosines = table + t * sizes.pairs;
    const float* const sines = cosines + sizes.length * sizes.pairs;
    auto first = row_pack<aligned>(firsts, column, sizes.pairs);
    auto second = row_pack<aligned>(seconds, column, sizes.pairs);
    const auto cosine = row_floats<aligned, width>(cosines, column, sizes.pairs);
    const auto sine = row_floats<aligned, width>(sines, column, sizes.pairs);
#pragma unroll
    for (int j = 0; j < width; ++j) {
      const float a = load(first[j]), b = load(second[j]);
      const Rotation r{cosine[j], sine[j]};
      store(first[j], rotated_first(r, a, b));
      store(second[j], rotated_second(r, a, b));
    }
    store_row_pack<aligned>(firsts, column, sizes.pairs, first);
    store_row_pack<aligned>(seconds, column, sizes.pairs, second);
  });
}

void rotate(Stream& stream, const Tensor& qkv, const RopeOptions& options, const Tensor& spans,
            std::int64_t count, float direction) {
  if (qkv.count() == 0) return;
  // The table of whole sequences has all positions in documents; that of runs may lack some.
  const Tensor& starts = options.document_starts;
  const bool apart = !spans.empty() || (!starts.empty() && !options.runs.empty());
  const RowPositions positions(spans, qkv.shape[1], count, apart ? starts : Tensor{}, options.runs);
  const std::int64_t all = options.heads + 2 * options.kv_heads;
  const std::int64_t rows = qkv.shape[0] * qkv.shape[1];
  const Sizes sizes{.length = apart ? rows : qkv.shape[1],
                    .width = qkv.shape[2],
                    .rotated = options.heads + options.kv_heads,
                    .pairs = qkv.shape[2] / all / 2,
                    .starts = starts.empty() || apart ? nullptr : starts.as<std::int32_t>()};
  const std::int64_t angles = sizes.length * sizes.pairs;
  auto* const table = reinterpret_cast<float*>(
      CudaStream::of(stream).scratch(static_cast<std::size_t>(2 * angles) * sizeof(float)));
  launch(stream, grid_for(stream, angles, 256), angles_kernel, table, sizes, positions,
         RopeAngles(options, sizes.pairs), direction);
  visit_compute_dtype(qkv.dtype, [&]<typename T>(T) {
    const RowPacks packs(rows * sizes.rotated, sizes.pairs, pack_width<T>);
    with_flag(rows_align<T>(qkv.as<T>(), sizes.pairs), [&](auto aligned) {
      launch(stream, grid_for(stream, packs.count(), 256), rotate_kernel<aligned, T>, qkv.as<T>(),
             table, sizes, packs);
    });
  });
}

}  // namespace

void rope_forward(Stream& stream, const Tensor& qkv, const RopeOptions& options,
                  const Tensor& spans, std::int64_t positions) {
  rotate(stream, qkv, options, spans, positions, 1.0F);
}

void rope_backward(Stream& stream, const Tensor& dqkv, const RopeOptions& options) {
  rotate(stream, dqkv, options, /*spans=*/{}, /*count=*/0, -1.0F);
}

TRIREME_CUDA_PROVIDES(ops, rope_forward, rope_backward);

}  // namespace trireme::ops::cuda
