// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops::cpu {

void dropout(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& sample_ids,
             const Tensor& rng, std::uint64_t layer, float probability);
void dropout_rows(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& sample_ids,
                  const Tensor& rng, std::uint64_t layer, float probability, std::int64_t first_row,
                  std::int64_t rows_per_sample);

}  // namespace trireme::ops::cpu
