// SPDX-License-Identifier: Apache-2.0
// Private: vrmse and mean_iou, a group for each sample, written once for all back ends, see
// common/maps_cpu.h.
#pragma once

#include "runtime/ops/loss/mean_iou_math.h"
#include "runtime/ops/loss/vrmse.h"
#include "runtime/ops/loss/vrmse_math.h"

namespace trireme::ops::TRIREME_BACK_END {
namespace {

constexpr int vrmse_threads = 512, mean_iou_threads = 1024;

template <typename T>
TRIREME_DEVICE void vrmse_of_sample(const Group<vrmse_threads>& group, std::int64_t sample,
                                    float* errors, const T* predictions, const float* targets,
                                    std::int64_t values, std::int64_t channels) {
  const std::int64_t begin = sample * values, end = begin + values;
  SampleErrors all;
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    const std::int64_t first = begin + channel + group.first * channels;
    ChannelErrors of;
    for (std::int64_t i = first; i < end; i += group.step * channels)
      of.add(predictions[i], targets[i]);
    of = {group.sum(of.count), group.sum(of.targets), group.sum(of.squares)};
    double variations = 0;
    for (std::int64_t i = first; i < end; i += group.step * channels)
      variations += variation(targets[i], of.mean());
    all.add(of, group.sum(variations));
  }
  if (group.first == 0) errors[sample] = all.result();
}

// Counts are integers: the order of a block's atomics does not matter.
template <typename T>
TRIREME_DEVICE void iou_of_sample(const Group<mean_iou_threads>& group, std::int64_t sample,
                                  float* scores, const float* losses, const float* correct,
                                  const T* logits, const std::int32_t* targets,
                                  std::int64_t samples, std::int64_t rows, std::int64_t stride,
                                  const MeanIouOptions& options) {
  double loss = 0, right = 0;
  auto* const pixels = group.template zeroed<ClassPixels>(options.classes);
  for (std::int64_t row = sample * rows + group.first; row < (sample + 1) * rows;
       row += group.step) {
    const std::int64_t target = targets[row];
    loss += static_cast<double>(losses[row]);
    right += static_cast<double>(correct[row]);
    if (target < 0 || target >= options.classes) continue;
    const std::int64_t best = first_largest(logits + row * stride, options.classes);
    group.increment(pixels[target].actual);
    group.increment(pixels[best].predicted);
    if (best == target) group.increment(pixels[best].both);
  }
  loss = group.sum(loss);  // after which all counts are there
  right = group.sum(right);
  if (group.first == 0) store_scores(scores + sample, samples, pixels, loss, right, options);
}

}  // namespace

void vrmse(Stream& stream, const Tensor& errors, const Tensor& predictions, const Tensor& targets,
           std::int64_t channels) {
  visit_compute_dtype(predictions.dtype, [&]<typename T>(T) {
    each_group<vrmse_of_sample<T>, vrmse_threads>(
        stream, predictions.shape[0], 0, errors.as<float>(), predictions.as<T>(),
        targets.as<float>(), predictions.shape[1], channels);
  });
}

void mean_iou(Stream& stream, const Tensor& scores, const Tensor& losses, const Tensor& correct,
              const Tensor& logits, const Tensor& targets, const MeanIouOptions& options) {
  const std::int64_t samples = scores.shape[1];
  visit_compute_dtype(logits.dtype, [&]<typename T>(T) {
    each_group<iou_of_sample<T>, mean_iou_threads, ClassPixels>(
        stream, samples, options.classes, scores.as<float>(), losses.as<float>(),
        correct.as<float>(), logits.as<T>(), targets.as<std::int32_t>(), samples,
        logits.shape[0] / samples, logits.shape[1], options);
  });
}

TRIREME_PROVIDES(vrmse, mean_iou);

}  // namespace trireme::ops::TRIREME_BACK_END
