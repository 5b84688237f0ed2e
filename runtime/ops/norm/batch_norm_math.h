// SPDX-License-Identifier: Apache-2.0
// Arithmetic of one channel, shared by all back ends.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "runtime/base/host_device.h"
#include "runtime/ops/common/float_types.h"
#include "runtime/ops/norm/batch_norm.h"

namespace trireme::ops {

// Mean, and sum of squared differences from it.
struct Moments {
  double mean, squares;
};

// The moments of `added` values, from their sums around a pivot.
TRIREME_HOST_DEVICE inline Moments moments_around(double pivot, double sum, double sum_of_squares,
                                                  double added, double inverse) {
  const double offset = sum * inverse;
  return {pivot + offset, std::max(sum_of_squares - offset * offset * added, 0.0)};
}

// Merges the moments of `before` values with those of `added` more (Chan, Golub & LeVeque,
// "Updating formulae and a pairwise algorithm for computing sample variances", 1979).
struct MomentsJoin {
  double before, share;

  TRIREME_HOST_DEVICE MomentsJoin(double before_, double added)
      : before(before_), share(added / (before_ + added)) {}
  TRIREME_HOST_DEVICE Moments operator()(const Moments& a, const Moments& b) const {
    const double delta = b.mean - a.mean;
    return {a.mean + delta * share, a.squares + (b.squares + delta * delta * (before * share))};
  }
};

// Joins given parts of a channel's values: mean, biased variance, number.
struct PartsJoin {
  Moments moments{};
  double values = 0;

  // `part`: of one channel of part(3, C).
  TRIREME_HOST_DEVICE void add(const float* part, std::int64_t channels) {
    const double added = part[2 * channels];
    moments = MomentsJoin(values, added)(moments, {part[0], part[channels] * added});
    values += added;
  }
};

TRIREME_HOST_DEVICE inline float normalizing_scale(float gamma, float variance, float epsilon) {
  return gamma / std::sqrt(variance + epsilon);
}

TRIREME_HOST_DEVICE inline float normalized(float x, float mean, float scale, float shift) {
  return (x - mean) * scale + shift;
}

// NaN passes, because hiding it here would only move the failure elsewhere.
TRIREME_HOST_DEVICE inline float relu_of(float value) {
  return value < 0.0F ? 0.0F : value;
}

template <typename T>
TRIREME_HOST_DEVICE float rounded(float value) {
  T result;
  store(result, value);
  return load(result);
}

// The largest float that rounds to 0 in T: half of T's smallest subnormal.
template <typename T>
inline constexpr float rounds_to_zero = std::is_same_v<T, float> ? 0.0F
                                        : std::is_same_v<T, f16> ? 0x1p-25F
                                                                 : 0x1p-134F;

// The gradient through a ReLU whose input was `value` before rounding to T.
template <typename T>
TRIREME_HOST_DEVICE float through_relu(float gradient, float value) {
  return value > rounds_to_zero<T> ? gradient : 0.0F;
}

// With xhat = (x - mean) / s: dx = gamma / s * (dy - average(dy) - xhat * average(dy * xhat))
//                                = scale * dy - offset - slope * (x - mean).
struct ChannelGradient {
  float scale, offset, slope, dgamma, dbeta;

  // From the sums of dy and of dy * (x - mean) over a channel's values.
  TRIREME_HOST_DEVICE ChannelGradient(double sum, double product_sum, double inverse_count,
                                      float gamma, float variance, float epsilon) {
    const double rstd =
        1.0 / std::sqrt(static_cast<double>(variance) + static_cast<double>(epsilon));
    const double factor = static_cast<double>(gamma) * rstd;
    scale = static_cast<float>(factor);
    offset = static_cast<float>(factor * sum * inverse_count);
    slope = static_cast<float>(factor * rstd * rstd * product_sum * inverse_count);
    dgamma = static_cast<float>(product_sum * rstd);
    dbeta = static_cast<float>(sum);
  }
};

// The operands of one call.
struct NormChannels {
  const float *gamma, *beta, *mean, *variance;

  explicit NormChannels(const BatchNormChannels& from)
      : gamma(from.gamma.as<float>()),
        beta(from.beta.as<float>()),
        mean(from.mean.as<float>()),
        variance(from.variance.as<float>()) {}
};

// What is added to the normalised values.
enum class NormSummand { none, plain, normalized };

template <typename T>
struct NormApplication {
  T* y;
  const T *x, *summand;
  NormChannels by, summand_by;
  std::int64_t count;  // rows of each mean
  BatchNormOptions options;
};

// The tensor from which the ReLU's mask is recomputed.
enum class ReluMask { none, input, sum };

template <typename T>
struct NormGradient {
  T* dx;
  T* dy;
  const T *x, *sum;
  float *dgamma, *dbeta;
  NormChannels by;
  std::int64_t count;  // rows of each mean
  float epsilon;
};

// Converts a biased variance of n values to the unbiased one. For one value keeps the biased one
// (0).
TRIREME_HOST_DEVICE inline float unbiased_factor(std::int64_t n) {
  return n == 1 ? 1.0F : static_cast<float>(static_cast<double>(n) / static_cast<double>(n - 1));
}

}  // namespace trireme::ops
