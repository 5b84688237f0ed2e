// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/loss/mean_iou.h"
#include "runtime/ops/loss/mean_iou_math.h"

namespace trireme::ops::cpu {

void mean_iou(Stream& stream, const Tensor& scores, const Tensor& losses, const Tensor& correct,
              const Tensor& logits, const Tensor& targets, const MeanIouOptions& options) {
  const std::int64_t samples = scores.shape[1], rows = logits.shape[0] / samples;
  visit_compute_dtype(logits.dtype, [&]<typename T>(T) {
    enqueue(stream,
            [to = scores.as<float>(), losses = losses.as<float>(), correct = correct.as<float>(),
             logits = logits.as<T>(), targets = targets.as<std::int32_t>(), samples, rows,
             stride = logits.shape[1], options] {
              static thread_local std::vector<ClassPixels> pixels;
              for (std::int64_t sample = 0; sample < samples; ++sample) {
                pixels.assign(static_cast<std::size_t>(options.classes), {});
                double loss = 0, right = 0;
                for (std::int64_t row = sample * rows; row < (sample + 1) * rows; ++row) {
                  const std::int64_t target = targets[row];
                  loss += static_cast<double>(losses[row]);
                  right += static_cast<double>(correct[row]);
                  if (target < 0 || target >= options.classes) continue;
                  const std::int64_t best = first_largest(logits + row * stride, options.classes);
                  ++pixels[static_cast<std::size_t>(target)].actual;
                  ++pixels[static_cast<std::size_t>(best)].predicted;
                  if (best == target) ++pixels[static_cast<std::size_t>(best)].both;
                }
                store_scores(to + sample, samples, pixels.data(), loss, right, options);
              }
            });
  });
}

}  // namespace trireme::ops::cpu
