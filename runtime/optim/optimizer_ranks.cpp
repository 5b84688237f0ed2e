// SPDX-License-Identifier: Apache-2.0
#include "runtime/optim/optimizer_ranks.h"

namespace trireme {

// Several ZeRO groups of data ranks that share experts hold the same dense parameters and other
// experts: then all of them count together (ParamLayout::repeats).
OptimizerRanks optimizer_ranks(const ProcessMesh& mesh) {
  if (mesh.shape().expert > mesh.shape().shard)
    return {.slices = &mesh.experts(), .model = &mesh.pipeline()};
  return {.slices = &mesh.zero(), .tensor = &mesh.tensor(), .model = &mesh.model()};
}

OptimizerGroups::OptimizerGroups(Device& device, const OptimizerRanks& ranks) {
  const auto join = [&](std::optional<TensorGroup>& group, Communicator* communicator) {
    if (communicator == nullptr || communicator->size() == 1) return;
    group.emplace(device, *communicator, *ranks.comm, ranks.stalls);
  };
  join(slices, ranks.slices);
  join(tensor, ranks.tensor);
  join(model, ranks.model);
}

void OptimizerGroups::add_up(Stream& stream, const Tensor& sums) const {
  if (slices) slices->all_reduce(stream, sums);
  if (model) model->all_reduce(stream, sums);
}

}  // namespace trireme
