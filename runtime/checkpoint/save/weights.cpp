// SPDX-License-Identifier: Apache-2.0
#include "runtime/checkpoint/save/weights.h"

#include <vector>

#include "runtime/checkpoint/files/safetensors.h"

namespace trireme {

void save_weights(const std::string& path, std::span<const WholeTensor> tensors,
                  const std::map<std::string, std::string>& metadata) {
  std::vector<NamedTensor> named;
  for (const WholeTensor& tensor : tensors) {
    // Only read from: a view has no const form.
    auto* const data = reinterpret_cast<std::byte*>(const_cast<float*>(tensor.values.data()));
    named.push_back({tensor.name, {data, DType::f32, tensor.shape}});
  }
  write_safetensors(path, named, metadata);
}

}  // namespace trireme
