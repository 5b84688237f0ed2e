// SPDX-License-Identifier: Apache-2.0
// Model weights as one safetensors file: every parameter and running statistic of a ParamStore,
// fp32, whole, under its own name.
#pragma once

#include <map>
#include <span>
#include <string>

#include "runtime/checkpoint/gather.h"

namespace trireme {

// Writes the file atomically.
void save_weights(const std::string& path, std::span<const WholeTensor> tensors,
                  const std::map<std::string, std::string>& metadata);

}  // namespace trireme
