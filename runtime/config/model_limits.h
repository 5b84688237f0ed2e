// SPDX-License-Identifier: Apache-2.0
// The limits that a declared model sets for a run: reported by its layers (nn/layer.h), checked by
// the rules of resolve_config, which know no models.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

// A size with its name in messages: its key, or its parts.
struct Extent {
  std::int64_t value = 0;
  std::string name;
  friend bool operator==(const Extent&, const Extent&) = default;
};

struct ModelLimits {
  std::int64_t layers = 0;  // of the chain, including the first and the last
  // The number of tensor blocks must divide all of these; empty: tensor ranks cannot split the
  // layers.
  std::vector<Extent> tensor;
  // Experts of each layer that has them, which the ranks that share them must divide; 0: the model
  // has none.
  Extent experts;
  // Depth (1 of images), height and width of samples that spatial parallelism can split; empty:
  // they cannot.
  std::vector<Extent> axes;
  // Rows of the residual stream per sample, if they can be split; 0: they cannot.
  Extent rows;
  // Positions of a sample, if it can be cut in time (ContextSplit); 0: it cannot.
  Extent positions;
  std::string whole_sequences;  // the key of a loss that needs whole ones; empty: none does
  // Of attention over heads that ranks may share (ContextMode::heads).
  std::int64_t attention_heads = 0, attention_kv_heads = 0;
  // Width of the activation computed by fused matmul epilogues; 0: the model has none.
  Extent gelu;
  bool convolutions = false;         // cuDNN may fuse their sums
  bool fp8 = false;                  // has linear layers that can use 8-bit floats
  bool selective_recompute = false;  // has activations that Recompute::selective drops
  bool splits_backward = true;       // every layer does
  std::vector<std::string> adapted;  // roles of linear layers that may have low-rank adapters
  // Names of the weights, of tied ones the original's.
  std::vector<std::string> parameters;
  bool ties = false;        // its first and last layer share weights
  std::int64_t blocks = 0;  // of the chain
  bool documents = false;   // can separate the documents of a sequence
};

}  // namespace trireme
