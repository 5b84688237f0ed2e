// SPDX-License-Identifier: Apache-2.0
// Private: arithmetic of a sample's overlap and of a pixel's loss, shared by all back ends.
#pragma once

#include <cfloat>
#include <limits>

#include "runtime/ops/common/float_types.h"
#include "runtime/ops/loss/cross_entropy_math.h"

namespace trireme::ops {

// Of one class, over the counted pixels of a sample (cross_entropy.h).
struct ClassOverlap {
  double both = 0.0, predicted = 0.0, actual = 0.0;
};

// The slope of a sample's dice loss, times its counted pixels, by the probability of a class at
// pixels of that class and at others.
struct DiceSlope {
  float own = 0.0F, other = 0.0F;
};

// Returns the loss and writes the slopes(classes).
TRIREME_HOST_DEVICE inline float dice_loss(DiceSlope* slopes, const ClassOverlap* overlaps,
                                           std::int64_t classes) {
  constexpr double smoothing = 1e-6;
  const double share = 1.0 / static_cast<double>(classes - 1);
  double counted = 0.0, loss = 0.0;
  for (std::int64_t c = 0; c < classes; ++c)
    counted += overlaps[c].actual;
  slopes[0] = {};
  for (std::int64_t c = 1; c < classes; ++c) {
    const ClassOverlap& of = overlaps[c];
    const double sum = of.predicted + of.actual + smoothing;
    const double dice = (2.0 * of.both + smoothing) / sum, unit = counted * share / sum;
    slopes[c] = {static_cast<float>(unit * (dice - 2.0)), static_cast<float>(unit * dice)};
    loss += share * (1.0 - dice);
  }
  return static_cast<float>(loss);
}

// Of a pixel's logits.
struct PixelSoftmax {
  float top = -FLT_MAX;
  std::int64_t first = 0;  // class of the first value that equals `top`
  RowSums sums;

  template <typename T, typename Exp>
  TRIREME_HOST_DEVICE PixelSoftmax(const T* row, std::int64_t classes, Exp exp) {
    for (std::int64_t c = 0; c < classes; ++c) {
      const float value = load(row[c]);
      if (value > top) first = c;
      top = value > top ? value : top;
    }
    for (std::int64_t c = 0; c < classes; ++c) {
      const float distance = load(row[c]) - top;
      sums.exponentials += static_cast<double>(exp(distance));
      sums.distances += static_cast<double>(distance);
    }
  }
  [[nodiscard]] TRIREME_HOST_DEVICE float inverse() const {
    return static_cast<float>(1.0 / sums.exponentials);
  }
};

template <typename T>
struct DicePixels {
  float* losses;
  float* correct;
  T* logits;
  const std::int32_t* targets;
  std::int64_t stride;
  CrossEntropyOptions options;

  // Adds a counted pixel to the overlap of class c.
  template <typename Exp>
  TRIREME_HOST_DEVICE void add_to(ClassOverlap& overlap, std::int64_t index, std::int64_t c,
                                  Exp exp) const {
    const T* const row = logits + index * stride;
    const PixelSoftmax softmax(row, options.classes, exp);
    const auto p = static_cast<double>(exp(load(row[c]) - softmax.top) * softmax.inverse());
    const bool is_true = targets[index] == c;
    overlap.predicted += p;
    overlap.both += is_true ? p : 0.0;
    overlap.actual += is_true ? 1.0 : 0.0;
  }

  // Loss and gradient of a pixel, with its sample's dice loss and slopes(classes).
  template <typename Exp>
  TRIREME_HOST_DEVICE void run(std::int64_t index, float dice, const DiceSlope* slopes,
                               Exp exp) const {
    T* const row = logits + index * stride;
    const std::int64_t target = targets[index], classes = options.classes;
    if (target < 0) {
      losses[index] = correct[index] = 0.0F;
      for (std::int64_t c = 0; options.write_gradient && c < stride; ++c)
        store(row[c], 0.0F);
      return;
    }
    const PixelSoftmax softmax(row, classes, exp);
    const bool known = target < classes;
    const float own = known ? load(row[target]) : std::numeric_limits<float>::quiet_NaN();
    const float weight = 0.5F * row_weight(options, index, known ? target : 0);
    const float of_sample =
        0.5F *
        (options.weights == nullptr ? 1.0F : options.weights[index / options.rows_per_weight]);
    const double distance = static_cast<double>(own) - static_cast<double>(softmax.top);
    losses[index] =
        weight * row_loss(softmax.sums, distance, softmax.top, options) + of_sample * dice;
    correct[index] = softmax.first == target ? 1.0F : 0.0F;
    if (options.write_gradient)
      write_gradient(row, target, softmax, slopes, weight, of_sample, exp);
  }

 private:
  // Of probabilities p with slopes g, the dice loss has the gradient p (g - sum of p g).
  template <typename Exp>
  TRIREME_HOST_DEVICE void write_gradient(T* row, std::int64_t target, const PixelSoftmax& softmax,
                                          const DiceSlope* slopes, float weight, float of_sample,
                                          Exp exp) const {
    const std::int64_t classes = options.classes;
    const float scale = gradient_scale_of(options), inverse = softmax.inverse();
    const float factor =
        softmax_factor(softmax.sums.exponentials, softmax.top, scale * weight, options);
    const float one_hot = scale * weight * (1.0F - options.label_smoothing);
    const float spread = scale * weight * options.label_smoothing / static_cast<float>(classes);
    const auto slope = [&](std::int64_t c) {
      return c == target ? slopes[c].own : slopes[c].other;
    };
    float mean = 0.0F;
    for (std::int64_t c = 0; c < classes; ++c)
      mean += exp(load(row[c]) - softmax.top) * inverse * slope(c);
    for (std::int64_t c = 0; c < classes; ++c) {
      const float e = exp(load(row[c]) - softmax.top);
      const float overlap = scale * of_sample * (e * inverse) * (slope(c) - mean);
      store(row[c], e * factor - spread - (c == target ? one_hot : 0.0F) + overlap);
    }
    for (std::int64_t c = classes; c < stride; ++c)
      store(row[c], 0.0F);
  }
};

template <typename T>
[[nodiscard]] DicePixels<T> dice_pixels(const Tensor& losses, const Tensor& correct,
                                        const Tensor& logits, const Tensor& targets,
                                        const CrossEntropyOptions& options) {
  return {losses.as<float>(),         correct.as<float>(), logits.as<T>(),
          targets.as<std::int32_t>(), logits.shape[1],     options};
}

}  // namespace trireme::ops
