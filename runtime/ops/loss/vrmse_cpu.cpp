// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/loss/vrmse.h"

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/loss/vrmse_math.h"

namespace trireme::ops::cpu {

void vrmse(Stream& stream, const Tensor& errors, const Tensor& predictions, const Tensor& targets,
           std::int64_t channels) {
  visit_compute_dtype(predictions.dtype, [&]<typename T>(T) {
    enqueue(stream, [to = errors.as<float>(), predicted = predictions.as<T>(),
                     wanted = targets.as<float>(), samples = predictions.shape[0],
                     values = predictions.shape[1], channels] {
      for (std::int64_t sample = 0; sample < samples; ++sample) {
        SampleErrors all;
        const std::int64_t end = (sample + 1) * values;
        for (std::int64_t first = sample * values; first < sample * values + channels; ++first) {
          ChannelErrors of;
          for (std::int64_t i = first; i < end; i += channels)
            of.add(predicted[i], wanted[i]);
          double variations = 0;
          for (std::int64_t i = first; i < end; i += channels)
            variations += variation(wanted[i], of.mean());
          all.add(of, variations);
        }
        to[sample] = all.result();
      }
    });
  });
}

}  // namespace trireme::ops::cpu
