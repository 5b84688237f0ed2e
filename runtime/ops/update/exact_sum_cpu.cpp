// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/update/exact_sum.h"

#include <algorithm>
#include <bit>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/update/exact_sum_math.h"
#include "runtime/ops/update/update_table.h"

namespace trireme::ops::cpu {
namespace {

constexpr std::int64_t block = ExactBins::block;

double term(float x) {
  const auto wide = static_cast<double>(x);
  return wide * wide;
}
double term(double remainder) {
  return remainder;
}

// Extracts the two bins below 2^top from the smaller terms of `from`; remainders go to `rest`,
// which may be `from`. Returns whether any is not zero.
template <typename T>
bool take_bins(ExactSum& sum, double* rest, const T* from, std::int64_t count, int top) {
  const ExactBins bins(top);
  double first_sum = 0.0;
  double second_sum = 0.0;
  std::uint64_t left = 0;
#pragma omp simd reduction(+ : first_sum, second_sum) reduction(| : left)
  for (std::int64_t i = 0; i < count; ++i) {
    const ExactBins::Parts parts = bins.split(term(from[i]));
    first_sum += parts.coarse;
    second_sum += parts.fine;
    left |= std::bit_cast<std::uint64_t>(parts.rest);
    rest[i] = parts.rest;
  }
  bins.add(sum, first_sum, second_sum);
  return left != 0;
}

std::uint32_t largest_magnitude(const float* x, std::int64_t count) {
  std::uint32_t largest = 0;
#pragma omp simd reduction(max : largest)
  for (std::int64_t i = 0; i < count; ++i)
    largest = std::max(largest, magnitude_bits(x[i]));
  return largest;
}

void add_block(ExactSum& sum, const float* x, std::int64_t count) {
  float finite[block];
  std::uint32_t largest = largest_magnitude(x, count);
  if (largest >= infinity_bits) [[unlikely]] {
    for (std::int64_t i = 0; i < count; ++i) {
      finite[i] = std::isfinite(x[i]) ? x[i] : 0.0F;
      sum.infinities += std::isinf(x[i]) ? 1 : 0;
      sum.nans += std::isnan(x[i]) ? 1 : 0;
    }
    x = finite;
    largest = largest_magnitude(x, count);
  }
  if (largest == 0) return;
  double rest[block];
  int top = ExactBins::top_of(largest);
  bool left = take_bins(sum, rest, x, count, top);
  while (left) {
    top -= 2 * ExactBins::bits;
    left = take_bins(sum, rest, rest, count, top);
  }
}

// Leaves the sum in canonical form.
void add_values(ExactSum& sum, const float* x, std::int64_t n) {
  constexpr std::int64_t stretch = ExactSum::adds_before_carry / (2 * ExactBins::passes) * block;
  for (std::int64_t begin = 0; begin < n; begin += stretch) {
    const std::int64_t end = std::min(begin + stretch, n);
    for (std::int64_t first = begin; first < end; first += block)
      add_block(sum, x + first, std::min(block, end - first));
    sum.carry();
  }
}

}  // namespace

void accumulate_squares_exact(Stream& stream, const Tensor& state, const Tensor& x) {
  enqueue(stream, [state = state.as<std::uint64_t>(), x = x.as<float>(), n = x.count()] {
    ExactSum sum;
    sum.load(state);
    add_values(sum, x, n);
    sum.store(state);
  });
}

void sum_squares_exact(Stream& stream, const Tensor& states, const SquaresTable& table) {
  enqueue(stream, [states = states.as<std::uint64_t>(), &table] {
    const auto first_run = table.first_run();
    std::vector<float> gathered;
    for (std::int64_t total = 0; total < table.totals(); ++total) {
      ExactSum sum{};
      const auto i = static_cast<std::size_t>(total);
      for (std::int64_t run = first_run[i]; run < first_run[i + 1]; ++run) {
        const SquaresEntry& entry = table.entries()[static_cast<std::size_t>(run)];
        add_values(sum, neighbours(entry, gathered), entry.count);
      }
      sum.store(states + total * exact_sum_words);
    }
  });
}

void exact_sum_values(Stream& stream, const Tensor& totals, const Tensor& states) {
  enqueue(stream,
          [totals = totals.as<double>(), states = states.as<std::uint64_t>(), n = totals.count()] {
            for (std::int64_t i = 0; i < n; ++i) {
              ExactSum sum;
              sum.load(states + i * exact_sum_words);
              totals[i] = sum.value();
            }
          });
}

}  // namespace trireme::ops::cpu
