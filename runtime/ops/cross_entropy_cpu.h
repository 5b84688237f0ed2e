// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/ops/cross_entropy.h"

namespace trireme::ops::cpu {

void cross_entropy(Stream& stream, const Tensor& losses, const Tensor& hits, const Tensor& logits,
                   const Tensor& targets, const CrossEntropyOptions& options);

}  // namespace trireme::ops::cpu
