// SPDX-License-Identifier: Apache-2.0
#include "runtime/optim/model_groups.h"

namespace trireme {

// Several ZeRO groups of data ranks that share experts hold the same dense parameters and other
// experts: then all of them count together (ParamLayout::repeats).
ModelGroups::ModelGroups(Device& device, const ProcessMesh& mesh, Stream& comm,
                         StallClock* stalls) {
  const auto join = [&](std::optional<TensorGroup>& group, Communicator& ranks) {
    if (ranks.size() > 1) group.emplace(device, ranks, comm, stalls);
  };
  const bool together = mesh.shape().expert > mesh.shape().shard;
  join(slices, together ? mesh.experts() : mesh.zero());
  if (!together) join(tensor, mesh.tensor());
  join(model, together ? mesh.pipeline() : mesh.model());
}

const ModelGroups& ModelGroups::one_rank() {
  static const ModelGroups none;
  return none;
}

void ModelGroups::add_up(Stream& stream, const Tensor& sums) const {
  if (slices) slices->all_reduce(stream, sums);
  if (model) model->all_reduce(stream, sums);
}

}  // namespace trireme
