// SPDX-License-Identifier: Apache-2.0
// The ranks that together hold every parameter, or slice of one, once.
#pragma once

#include <optional>

#include "runtime/comm/process_mesh.h"
#include "runtime/nn/tensor_group.h"

namespace trireme {

// Groups of one rank are absent.
struct ModelGroups {
  static const ModelGroups& one_rank();
  // All must outlive this. `stalls` times waits for the groups' calls on `comm`; null: none.
  ModelGroups(Device& device, const ProcessMesh& mesh, Stream& comm, StallClock* stalls = nullptr);
  // Sums over all ranks, each of which has counted its own slices.
  void add_up(Stream& stream, const Tensor& sums) const;

  std::optional<TensorGroup> slices;  // ranks with other slices of the same buckets (ZeRO)
  std::optional<TensorGroup> tensor;  // ranks with other tensor blocks of the same parameters
  std::optional<TensorGroup> model;   // those, and ranks with other parameters

 private:
  ModelGroups() = default;
};

}  // namespace trireme
