// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/common/vector_math_cpu.h"
#include "runtime/ops/loss/dice_cross_entropy_math.h"

namespace trireme::ops::cpu {
namespace {

constexpr auto exponential = [](float x) { return fast_exp(x); };

}  // namespace

void dice_cross_entropy(Stream& stream, const Tensor& losses, const Tensor& correct,
                        const Tensor& logits, const Tensor& targets,
                        const CrossEntropyOptions& options) {
  visit_compute_dtype(logits.dtype, [&]<typename T>(T) {
    enqueue(stream, [pixels = dice_pixels<T>(losses, correct, logits, targets, options),
                     rows = logits.shape[0]] {
      static thread_local std::vector<ClassOverlap> overlaps;
      static thread_local std::vector<DiceSlope> slopes;
      const std::int64_t classes = pixels.options.classes, size = pixels.options.rows_per_weight;
      slopes.resize(static_cast<std::size_t>(classes));
      for (std::int64_t first = 0; first < rows; first += size) {
        overlaps.assign(static_cast<std::size_t>(classes), {});
        for (std::int64_t index = first; index < first + size; ++index) {
          const std::int64_t target = pixels.targets[index];
          TRIREME_EXPECTS(target < classes,
                          "dice_cross_entropy: target {} of pixel {} is outside the {} classes",
                          target, index, classes);
          for (std::int64_t c = 0; target >= 0 && c < classes; ++c)
            pixels.add_to(overlaps[static_cast<std::size_t>(c)], index, c, exponential);
        }
        const float dice = dice_loss(slopes.data(), overlaps.data(), classes);
        for (std::int64_t index = first; index < first + size; ++index)
          pixels.run(index, dice, slopes.data(), exponential);
      }
    });
  });
}

}  // namespace trireme::ops::cpu
