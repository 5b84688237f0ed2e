// SPDX-License-Identifier: Apache-2.0
// What a declared model allows a run to do with it: told by its layers (nn/layer.h), checked by the
// rules of resolve_config, which know no model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

// A size, under the name that messages give it: its key, or what it is made of.
struct Extent {
  std::int64_t value = 0;
  std::string name;
  friend bool operator==(const Extent&, const Extent&) = default;
};

struct ModelLimits {
  std::int64_t layers = 0;  // of the chain, first and last included
  // What a number of tensor blocks must divide, each extent once; empty: layers cannot be split
  // over tensor ranks.
  std::vector<Extent> tensor;
  // Rows of the residual stream that one sample has, where these are split too; 0: they are not.
  Extent rows;
  // Of the activation that matmuls with fused epilogues compute; 0: the model has none.
  Extent gelu;
  bool convolutions = false;         // whose sums cuDNN may compute beside them
  bool fp8 = false;                  // has linear layers that multiply 8-bit floats
  bool selective_recompute = false;  // has activations that Recompute::selective does not keep
  bool splits_backward = true;       // every layer does
  std::vector<std::string> adapted;  // roles of linear layers that may have low-rank adapters
  bool documents = false;            // can keep the texts of a sequence apart
};

}  // namespace trireme
