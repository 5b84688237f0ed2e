// SPDX-License-Identifier: Apache-2.0
// Whole tensors on one rank, wherever their parts are: pipeline stages, tensor blocks, ZeRO slices.
#pragma once

#include <functional>
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

// Where every parameter is: all of the chain's, in its order, without copies of tied ones.
struct PlacedParam {
  ParamSpec spec{};
  int stage = 0;
};

// Values that go with the parameters, by bucket, as this rank owns them (its ZeRO slice).
using OwnedValues = std::function<Tensor(const Bucket&)>;

// Collective over the mesh; blocks the host. World rank 0 gets every tensor, the others nothing.
// The values may lie on a GPU: they are copied to the host on `comm` and travel between hosts.
// `with_constants`: what has no moments too, statistics and frozen weights.
[[nodiscard]] std::vector<WholeTensor> gather_whole(Device& device, const ProcessMesh& mesh,
                                                    Stream& comm, const ParamStore& params,
                                                    std::span<const PlacedParam> placed,
                                                    const OwnedValues& owned, bool with_constants);

// XXH3-64 over names, shapes and bytes, in the order given, as 16 hexadecimal digits.
[[nodiscard]] std::string digest_of(std::span<const WholeTensor> tensors);

}  // namespace trireme
