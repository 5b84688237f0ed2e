// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "runtime/ops/common/fixed_sum.h"
#include "runtime/ops/common/maps_cpu.h"
#include "runtime/ops/update/scalars_maps.h"

namespace trireme::ops::cpu {

namespace {

// Elements that stay in the first-level cache between update and rounding.
constexpr std::int64_t block = 1024;

template <typename T>
void round_block(T* to, const float* from, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i)
    store(to[i], from[i]);
}

template <typename Step>
void update_block(const Step& step, const StepOperands& at, std::int64_t n) {
  float *const p = at.target, *const first = at.states[0], *const second = at.states[1];
  const float* const g = at.source;
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    if constexpr (Step::state_count == 2) {
      p[i] = step(p[i], first[i], second[i], g[i]);
    } else if constexpr (Step::state_count == 1) {
      p[i] = step(p[i], first[i], g[i]);
    } else {
      p[i] = step(p[i], g[i]);
    }
  }
}

template <typename Step, typename T>
void update_run(const UpdateEntry& run, const UpdateOptions& options, const float* scalars) {
  const Step step(options, run, scalars);
  StepOperands at = Step::operands(run);
  T* const copy = Step::copied ? static_cast<T*>(run.compute) : nullptr;
  for (std::int64_t first = 0; first < run.count; first += block) {
    const std::int64_t count = std::min(block, run.count - first);
    update_block(step, at, count);
    if (copy != nullptr) round_block(copy + first, at.target, count);
    at.target += count;
    at.source += count;
    if constexpr (Step::state_count > 0) at.states[0] += count;
    if constexpr (Step::state_count > 1) at.states[1] += count;
  }
}

template <typename Step>
void update_all(Stream& stream, const UpdateTable& table, const Tensor& scalars,
                const UpdateOptions& options) {
  visit_compute_dtype(table.compute(), [&]<typename T>(T) {
    enqueue(stream, [&table, scalars = scalars.as<float>(), options] {
      if (skipped(scalars)) return;
      for (const UpdateEntry& run : table.entries())
        update_run<Step, T>(run, options, scalars);
    });
  });
}

}  // namespace

void update(Stream& stream, OptimizerKind kind, UpdatePart part, const UpdateTable& table,
            const Tensor& scalars, const UpdateOptions& options) {
  visit_step(kind, part, options, [&]<typename Step>(std::type_identity<Step> /*step*/) {
    update_all<Step>(stream, table, scalars, options);
  });
}

void sum_squares(Stream& stream, const Tensor& totals, const SquaresTable& table) {
  enqueue(stream, [totals = totals.as<double>(), &table] {
    const auto first_run = table.first_run();
    std::vector<float> gathered;
    for (std::int64_t i = 0; i < table.totals(); ++i) {
      totals[i] = 0.0;
      for (std::int64_t run = first_run[static_cast<std::size_t>(i)];
           run < first_run[static_cast<std::size_t>(i) + 1]; ++run) {
        const SquaresEntry& entry = table.entries()[static_cast<std::size_t>(run)];
        totals[i] += fixed_sum<true>(neighbours(entry, gathered), entry.count);
      }
    }
  });
}

void factored_moments(Stream& stream, const Tensor& state, const Tensor& roots,
                      const Tensor& totals, const Tensor& scalars,
                      std::span<const FactoredMatrix> matrices) {
  enqueue(stream, [state = state.as<float>(), roots = roots.as<float>(),
                   totals = totals.as<double>(), scalars = scalars.as<float>(), matrices] {
    if (skipped(scalars)) return;
    const FactoredStep step(scalars);
    for (const FactoredMatrix& matrix : matrices) {
      float *const row = state + matrix.first_row, *const column = state + matrix.first_column;
      for (std::int64_t i = 0; i < matrix.rows; ++i)
        row[i] = step(row[i], totals[matrix.first_row + i], matrix.columns);
      const double mean = fixed_sum<false>(row, matrix.rows) / static_cast<double>(matrix.rows);
      for (std::int64_t i = 0; i < matrix.rows; ++i)
        roots[matrix.first_row + i] = root_of(mean, row[i]);
      for (std::int64_t i = 0; i < matrix.columns; ++i) {
        column[i] = step(column[i], totals[matrix.first_column + i], matrix.rows);
        roots[matrix.first_column + i] = root_of(1.0, column[i]);
      }
    }
  });
}

void exponential_average(Stream& stream, const Tensor& average, const Tensor& parameter,
                         float decay, const Tensor& scalars) {
  const float* const guard = scalars.empty() ? nullptr : scalars.as<float>();
  enqueue(stream,
          [a = average.as<float>(), p = parameter.as<float>(), decay, guard, n = average.count()] {
            if (guard != nullptr && skipped(guard)) return;
            const float rest = 1.0F - decay;
#pragma omp simd
            for (std::int64_t i = 0; i < n; ++i)
              a[i] = decay * a[i] + rest * p[i];
          });
}

}  // namespace trireme::ops::cpu
