// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/loss/mean_iou.h"
#include "runtime/ops/loss/mean_iou_math.h"

namespace trireme::ops::cpu {

void mean_iou(Stream& stream, const Tensor& overlaps, const Tensor& logits, const Tensor& targets,
              std::int64_t classes) {
  const std::int64_t samples = overlaps.shape[1], rows = logits.shape[0] / samples;
  visit_compute_dtype(logits.dtype, [&](auto type) {
    using T = decltype(type);
    enqueue(stream, [to = overlaps.as<float>(), logits = logits.as<T>(),
                     targets = targets.as<std::int32_t>(), samples, rows, stride = logits.shape[1],
                     classes] {
      static thread_local std::vector<ClassPixels> pixels;
      for (std::int64_t sample = 0; sample < samples; ++sample) {
        pixels.assign(static_cast<std::size_t>(classes), {});
        for (std::int64_t row = sample * rows; row < (sample + 1) * rows; ++row) {
          const std::int64_t target = targets[row];
          if (target < 0 || target >= classes) continue;
          const std::int64_t best = first_largest(logits + row * stride, classes);
          ++pixels[static_cast<std::size_t>(target)].actual;
          ++pixels[static_cast<std::size_t>(best)].predicted;
          if (best == target) ++pixels[static_cast<std::size_t>(best)].both;
        }
        store_overlaps(to + sample, samples, pixels.data(), classes);
      }
    });
  });
}

}  // namespace trireme::ops::cpu
