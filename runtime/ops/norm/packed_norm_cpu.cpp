// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/common/float_types.h"
#include "runtime/ops/common/scratch.h"
#include "runtime/ops/norm/packed_norm_math.h"
#include "runtime/ops/norm/scale_offset_cpu.h"

namespace trireme::ops::cpu {
namespace {

using Scales = PackedParts<const float>;

// Sums are not inlined: each place might be vectorised differently, and round differently.
template <typename T>
[[gnu::noinline]] float squares_of(const T* in, std::int64_t length) {
  float sum = 0.0F;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < length; ++i)
    sum += load(in[i]) * load(in[i]);
  return sum;
}

template <typename T, typename Offset>
[[gnu::noinline]] float slopes_of(const T* slope, const T* in, const float* gamma, float inverse,
                                  Offset offset, std::int64_t length) {
  float sum = 0.0F;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < length; ++i)
    sum += load(slope[i]) * scaled(gamma[i], offset) * (load(in[i]) * inverse);
  return sum;
}

// With n = x rstd and g = dy gamma: dx = rstd (g - n mean(g n)), dgamma += dy n.
template <typename T, typename Offset>
[[gnu::noinline]] float add_terms_and_slopes(float* sums, const T* slope, const T* in,
                                             const float* gamma, float inverse, Offset offset,
                                             std::int64_t length) {
  float sum = 0.0F;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < length; ++i) {
    const float product = load(slope[i]) * (load(in[i]) * inverse);
    sums[i] += product;
    sum += product * scaled(gamma[i], offset);
  }
  return sum;
}

// Calls add_term(i, dy n).
template <typename T, typename Offset, typename AddTerm>
void to_input(T* slope, const T* in, const float* gamma, float inverse, float mean, Offset offset,
              std::int64_t length, const AddTerm& add_term) {
#pragma omp simd
  for (std::int64_t i = 0; i < length; ++i) {
    const float dy = load(slope[i]), normed = load(in[i]) * inverse;
    add_term(i, dy * normed);
    store(slope[i], inverse * (dy * scaled(gamma[i], offset) - normed * mean));
  }
}

// Rows summed separately before the total, so a long column loses fewer bits.
constexpr std::int64_t chunk = 64;

// to += sums over all rows: one_run(run, sums) adds a run's terms.
template <typename OneRun>
void add_in_chunks(const PackedRows& rows, const PackedParts<float>& to, const OneRun& one_run) {
  static thread_local ScratchBlock block;
  const std::int64_t columns = rows.query_length + rows.key_length;
  float* const sums = block.floats(static_cast<std::size_t>(columns));
  for (std::int64_t first = 0; first < rows.rows; first += chunk) {
    std::fill_n(sums, columns, 0.0F);
    for (std::int64_t row = first; row < std::min(first + chunk, rows.rows); ++row) {
      for (std::int64_t r = 0; r < rows.normed(); ++r)
        one_run(rows.run(row, r), sums + (r < rows.queries ? 0 : rows.query_length));
    }
    for (std::int64_t i = 0; i < rows.query_length; ++i)
      to.queries[i] += sums[i];
    for (std::int64_t i = 0; i < rows.key_length; ++i)
      to.keys[i] += sums[rows.query_length + i];
  }
}

// Calls action(T{}, offset).
template <typename Action>
void visit(const Tensor& x, const PackedNormOptions& options, const Action& action) {
  visit_compute_dtype(x.dtype, [&](auto type) {
    visit_offset(options.offset, [&](auto offset) { action(type, offset); });
  });
}

}  // namespace

void packed_norm_sums(Stream& stream, const Tensor& sums, const Tensor& x,
                      const PackedNormOptions& options, const Tensor& dy, const Tensor& rstd,
                      const PackedScales& scales) {
  visit(x, options, [&]<typename T, typename Offset>(T, Offset offset) {
    enqueue(stream, [to = sums.as<float>(), in = x.as<T>(),
                     slope = dy.empty() ? nullptr : dy.as<T>(), inverses = rstd.as<float>(),
                     gammas = Scales(scales), rows = PackedRows(x, options), offset] {
      for (std::int64_t i = 0; i < rows.rows * rows.normed(); ++i) {
        const PackedRun run = rows.run(i / rows.normed(), i % rows.normed());
        to[i] = slope == nullptr ? squares_of(in + run.at, run.length)
                                 : slopes_of(slope + run.at, in + run.at, gammas.at(run.part),
                                             inverses[i], offset, run.length);
      }
    });
  });
}

void packed_norm_forward(Stream& stream, const Tensor& y, const Tensor& rstd, const Tensor& x,
                         const PackedScales& scales, const PackedNormOptions& options,
                         const Tensor& squares) {
  visit(x, options, [&]<typename T, typename Offset>(T, Offset offset) {
    enqueue(stream, [out = y.as<T>(), inverses = rstd.as<float>(), in = x.as<T>(),
                     sums = squares.as<float>(), gammas = Scales(scales),
                     rows = PackedRows(x, options), offset] {
      for (std::int64_t row = 0; row < rows.rows; ++row) {
        for (std::int64_t r = 0; r < rows.normed(); ++r) {
          const PackedRun run = rows.run(row, r);
          const float* const gamma = gammas.at(run.part);
          const float sum = sums == nullptr ? squares_of(in + run.at, run.length) : sums[run.index];
          const float inverse = inverses[run.index] = rows.inverse(sum, run.part);
#pragma omp simd
          for (std::int64_t i = 0; i < run.length; ++i)
            store(out[run.at + i], load(in[run.at + i]) * inverse * scaled(gamma[i], offset));
        }
        const std::int64_t values = rows.run(row, rows.normed()).at;
        std::copy_n(in + values, rows.keys * rows.key_length, out + values);
      }
    });
  });
}

void packed_norm_backward(Stream& stream, const Tensor& dqkv, const PackedScales& gradients,
                          const Tensor& x, const Tensor& rstd, const PackedScales& scales,
                          const PackedNormOptions& options, const Tensor& slopes) {
  visit(x, options, [&]<typename T, typename Offset>(T, Offset offset) {
    enqueue(stream, [slope = dqkv.as<T>(), to = PackedParts<float>(gradients), in = x.as<T>(),
                     inverses = rstd.as<float>(), given = slopes.as<float>(),
                     gammas = Scales(scales), rows = PackedRows(x, options), offset] {
      add_in_chunks(rows, to, [&](const PackedRun& run, float* sums) {
        const float inverse = inverses[run.index];
        const float* const gamma = gammas.at(run.part);
        if (given != nullptr) {
          to_input(slope + run.at, in + run.at, gamma, inverse,
                   rows.mean(given[run.index], run.part), offset, run.length,
                   [sums](std::int64_t i, float term) { sums[i] += term; });
        } else {
          const float sum = add_terms_and_slopes(sums, slope + run.at, in + run.at, gamma, inverse,
                                                 offset, run.length);
          to_input(slope + run.at, in + run.at, gamma, inverse, rows.mean(sum, run.part), offset,
                   run.length, [](std::int64_t, float) {});
        }
      });
    });
  });
}

}  // namespace trireme::ops::cpu
