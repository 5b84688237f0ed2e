// SPDX-License-Identifier: Apache-2.0
// The other ranks that an optimizer and its gradient transforms communicate with.
#pragma once

#include <optional>
#include <span>

#include "runtime/comm/process_mesh.h"
#include "runtime/nn/tensor_group.h"

namespace trireme {

// Null: none.
struct OptimizerRanks {
  // Norms by exact integer sums: the same gradients give the same bits in any layout
  // (ops/exact_sum.h).
  bool exact = false;
  Communicator* slices = nullptr;  // ranks with other slices of the same buckets (ZeRO)
  Communicator* tensor = nullptr;  // ranks with other tensor blocks of the same parameters
  Communicator* model = nullptr;   // those, and ranks with other parameters
  Stream* comm = nullptr;
  StallClock* stalls = nullptr;  // times waits for them
  // The parameters of all pipeline stages; empty: a single stage.
  std::span<const ParamSpec> chain{};
};

// Those of a mesh: together the ranks that hold every parameter or slice of one once.
[[nodiscard]] OptimizerRanks optimizer_ranks(const ProcessMesh& mesh);

// Their groups, without those of one rank.
struct OptimizerGroups {
  OptimizerGroups(Device& device, const OptimizerRanks& ranks);
  // Sums over all ranks, each of which has counted its own slices.
  void add_up(Stream& stream, const Tensor& sums) const;

  std::optional<TensorGroup> slices, tensor, model;
};

}  // namespace trireme
