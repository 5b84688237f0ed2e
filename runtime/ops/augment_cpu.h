// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/ops/augment.h"

namespace trireme::ops::cpu {

void augment(Stream& stream, const Tensor& y, const Tensor& images, const Tensor& sample_ids,
             const Tensor& epochs, const AugmentOptions& options);

}  // namespace trireme::ops::cpu
