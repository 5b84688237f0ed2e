// SPDX-License-Identifier: Apache-2.0
// Gathers whole tensors on one rank from pipeline stages, tensor blocks and ZeRO slices.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/comm/process_mesh.h"
#include "runtime/nn/param_store.h"

namespace trireme {

struct WholeTensor {
  std::string name;
  Shape shape{};
  std::vector<float> values;
};

// Where a parameter is stored. Lists cover the whole chain in order, without tied copies.
struct PlacedParam {
  ParamSpec spec{};
  int stage = 0;
};

// Per bucket, this rank's ZeRO slice of values that belong to parameters.
using OwnedValues = std::function<Tensor(const Bucket&)>;

// Collective over the mesh; blocks the host. World rank 0 gets every tensor, the others nothing.
// Values on a GPU are copied to the host on `comm` and sent between hosts. `with_constants`: also
// tensors without moments (statistics and frozen weights).
[[nodiscard]] std::vector<WholeTensor> gather_whole(Device& device, const ProcessMesh& mesh,
                                                    Stream& comm, const ParamStore& params,
                                                    std::span<const PlacedParam> placed,
                                                    const OwnedValues& owned, bool with_constants);

// XXH3-64 over names, shapes and bytes in this order, as 16 hexadecimal digits.
[[nodiscard]] std::string digest_of(std::span<const WholeTensor> tensors);

// Model weights as one safetensors file: every parameter and running statistic of a ParamStore,
// fp32, whole, under its own name.

// Writes the file atomically; raises ExitCode::non_finite for NaN or infinity.
void save_weights(const std::string& path, std::span<const WholeTensor> tensors,
                  const std::map<std::string, std::string>& metadata);

}  // namespace trireme
