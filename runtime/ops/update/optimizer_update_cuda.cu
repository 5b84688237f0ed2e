// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/common/fixed_sum_cuda.h"
#include "runtime/ops/common/maps_cuda.h"
#include "runtime/ops/common/runs_cuda.h"
#include "runtime/ops/update/scalars_maps.h"

namespace trireme::ops::cuda {
namespace {

constexpr int threads = 256;

template <typename Step, typename Target, typename First, typename Second>
__device__ void apply(const Step& step, Target& target, First& first, Second& second,
                      float source) {
  if constexpr (Step::state_count == 2) {
    target = step(target, first, second, source);
  } else if constexpr (Step::state_count == 1) {
    target = step(target, first, source);
  } else {
    target = step(target, source);
  }
}

// Elements [i, i + width) of a run.
template <int width, typename Step, typename T>
__device__ void update_pack(const Step& step, const StepOperands& at, T* low, std::int64_t i) {
  Pack<float, width> target = load_pack<width>(at.target + i), first{}, second{};
  const auto source = load_pack<width>(at.source + i);
  if constexpr (Step::state_count > 0) first = load_pack<width>(at.states[0] + i);
  if constexpr (Step::state_count > 1) second = load_pack<width>(at.states[1] + i);
  for (int j = 0; j < width; ++j)
    apply(step, target[j], first[j], second[j], source[j]);
  if constexpr (Step::state_count > 0) store_pack(at.states[0] + i, first);
  if constexpr (Step::state_count > 1) store_pack(at.states[1] + i, second);
  store_pack(at.target + i, target);
  if (low == nullptr) return;
  Pack<T, width> rounded;
  for (int j = 0; j < width; ++j)
    store(rounded[j], target[j]);
  store_pack(low + i, rounded);
}

// A block takes a tile of a run at a time.
template <int width, typename Step, typename T>
__global__ void update_kernel(const UpdateEntry* entries, int runs, std::int64_t tiles,
                              const float* scalars, UpdateOptions options) {
  if (skipped(scalars)) return;
  constexpr std::int64_t elements = UpdateTable::tile_elements;
  for (std::int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const UpdateEntry run = entries[last_from(entries, runs, &UpdateEntry::tile, tile)];
    const Step step(options, run, scalars);
    const StepOperands at = Step::operands(run);
    T* const low = Step::copied ? static_cast<T*>(run.compute) : nullptr;
    const std::int64_t begin = (tile - run.tile) * elements;
    const std::int64_t end = std::min(begin + elements, run.count);
    std::int64_t i = begin + static_cast<std::int64_t>(threadIdx.x) * width;
#pragma unroll 4
    for (; i + width <= end; i += threads * width)
      update_pack<width>(step, at, low, i);
    // The last, partial pack.
    for (; i < end; ++i)
      update_pack<1>(step, at, low, i);
  }
}

template <typename Step>
void update_all(Stream& stream, const UpdateTable& table, const Tensor& scalars,
                const UpdateOptions& options) {
  visit_compute_dtype(table.compute(), [&]<typename T>(T) {
    with_width<float>(table.aligned(), [&](auto width) {
      launch(stream, grid_for(stream, table.tiles(), 1, threads),
             update_kernel<decltype(width)::value, Step, T>, table.on_device(),
             static_cast<int>(table.entries().size()), table.tiles(), scalars.as<float>(), options);
    });
  });
}

// sums(parts of the table)
__global__ void part_sums_kernel(double* sums, const SquaresEntry* entries, int runs,
                                 std::int64_t parts) {
  constexpr int lanes = static_cast<int>(sum_lanes);
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * chunks_per_block;
  for (std::int64_t base = static_cast<std::int64_t>(blockIdx.x) * chunks_per_block; base < parts;
       base += stride) {
    const std::int64_t part = base + threadIdx.x / lanes;
    const float* values = nullptr;
    std::int64_t begin = 0, end = 0, apart = 1;
    if (part < parts) {
      const SquaresEntry entry = entries[last_from(entries, runs, &SquaresEntry::part, part)];
      values = entry.values;
      begin = (part - entry.part) * sum_chunk;
      end = std::min(begin + sum_chunk, entry.count);
      apart = entry.stride;
    }
    const double sum = sum_of_chunk<true>(values, begin, end, apart);
    if (threadIdx.x % lanes == 0 && part < parts) sums[part] = sum;
  }
}

constexpr int join_threads = 1024;

// totals(n) from the sums of the parts. One block per total; its warps each take a run at a time
// and add its parts in order; then the runs are added.
__global__ void join_parts_kernel(double* totals, double* sums, const SquaresEntry* entries,
                                  const std::int64_t* first_run, int runs, std::int64_t parts) {
  constexpr int warps = join_threads / warp_size;
  const std::int64_t begin = first_run[blockIdx.x], end = first_run[blockIdx.x + 1];
  double* const run_sums = sums + parts;
  for (std::int64_t run = begin + threadIdx.x / warp_size; run < end; run += warps) {
    const std::int64_t from = entries[run].part;
    const std::int64_t to = run + 1 < runs ? entries[run + 1].part : parts;
    const double sum = sum_in_order(sums + from, to - from);
    if (threadIdx.x % warp_size == 0) run_sums[run] = sum;
  }
  __syncthreads();
  if (threadIdx.x >= warp_size) return;
  const double total = sum_in_order(run_sums + begin, end - begin);
  if (threadIdx.x == 0) totals[blockIdx.x] = total;
}

struct Average {
  float decay, rest;
  const float* guard;

  __device__ float operator()(float average, float parameter) const {
    if (guard != nullptr && skipped(guard)) return average;
    return decay * average + rest * parameter;
  }
};

// One block per matrix.
__global__ void factored_moments_kernel(float* state, float* roots, const double* totals,
                                        const float* scalars, const FactoredMatrix* matrices) {
  if (skipped(scalars)) return;
  __shared__ double mean;
  const FactoredStep step(scalars);
  const FactoredMatrix matrix = matrices[blockIdx.x];
  float *const row = state + matrix.first_row, *const column = state + matrix.first_column;
  for (std::int64_t i = threadIdx.x; i < matrix.rows; i += threads)
    row[i] = step(row[i], totals[matrix.first_row + i], matrix.columns);
  for (std::int64_t i = threadIdx.x; i < matrix.columns; i += threads) {
    column[i] = step(column[i], totals[matrix.first_column + i], matrix.rows);
    roots[matrix.first_column + i] = root_of(1.0, column[i]);
  }
  __syncthreads();
  if (threadIdx.x < warp_size) {
    double sum = 0.0;
    for (std::int64_t first = 0; first < matrix.rows; first += sum_chunk)
      sum += sum_of_chunk<false>(row, first, std::min(first + sum_chunk, matrix.rows));
    if (threadIdx.x == 0) mean = sum / static_cast<double>(matrix.rows);
  }
  __syncthreads();
  for (std::int64_t i = threadIdx.x; i < matrix.rows; i += threads)
    roots[matrix.first_row + i] = root_of(mean, row[i]);
}

}  // namespace

void update(Stream& stream, OptimizerKind kind, UpdatePart part, const UpdateTable& table,
            const Tensor& scalars, const UpdateOptions& options) {
  visit_step(kind, part, options, [&]<typename Step>(std::type_identity<Step> /*step*/) {
    update_all<Step>(stream, table, scalars, options);
  });
}

void factored_moments(Stream& stream, const Tensor& state, const Tensor& roots,
                      const Tensor& totals, const Tensor& scalars,
                      std::span<const FactoredMatrix> matrices) {
  launch(stream, {.blocks = static_cast<std::int64_t>(matrices.size()), .threads = threads},
         factored_moments_kernel, state.as<float>(), roots.as<float>(), totals.as<double>(),
         scalars.as<float>(), matrices.data());
}

void exponential_average(Stream& stream, const Tensor& average, const Tensor& parameter,
                         float decay, const Tensor& scalars) {
  const float* const guard = scalars.empty() ? nullptr : scalars.as<float>();
  float* const a = average.as<float>();
  const float* const p = parameter.as<float>();
  transform(stream, a, average.count(), Average{decay, 1.0F - decay, guard}, a, p);
}

void sum_squares(Stream& stream, const Tensor& totals, const SquaresTable& table) {
  auto* const sums = reinterpret_cast<double*>(table.sums());
  const auto runs = static_cast<int>(table.entries().size());
  launch(stream, grid_for(stream, table.parts(), chunks_per_block, fixed_sum_threads),
         part_sums_kernel, sums, table.entries_on_device(), runs, table.parts());
  launch(stream, {.blocks = table.totals(), .threads = join_threads}, join_parts_kernel,
         totals.as<double>(), sums, table.entries_on_device(), table.first_run_on_device(), runs,
         table.parts());
}

TRIREME_CUDA_PROVIDES(ops, update, factored_moments, exponential_average, sum_squares);

}  // namespace trireme::ops::cuda
