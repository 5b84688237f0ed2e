// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/process_mesh.h"

#include "runtime/comm/dry.h"

namespace trireme {

std::optional<int> world_rank_in(const MeshShape& shape, const MeshCoordinates& here,
                                 std::string_view group, int rank) {
  const std::string_view axis = group.substr(0, group.find('.'));
  if (axis == "world") return rank;
  if (axis == "data") return rank_of(shape, {here.pipeline, rank, here.tensor});
  const int in_group = here.data % shape.shard;
  if (axis == "zero")
    return rank_of(shape, {here.pipeline, here.data - in_group + rank, here.tensor});
  if (axis == "replicas")
    return rank_of(shape, {here.pipeline, in_group + rank * shape.shard, here.tensor});
  if (axis == "tensor") return rank_of(shape, {here.pipeline, here.data, rank});
  if (axis == "pipeline") return rank_of(shape, {rank, here.data, here.tensor});
  if (axis == "model") return rank_of(shape, {rank / shape.tensor, here.data, rank % shape.tensor});
  return std::nullopt;
}

ProcessMesh::ProcessMesh(Communicator& world, const MeshShape& shape)
    : ProcessMesh(world, shape,
                  [&](int color, int key, int /*size*/, const char* name, CommRole role) {
                    return world.split(color, key, name, role);
                  }) {}

ProcessMesh ProcessMesh::dry(Communicator& world, const MeshShape& shape) {
  return {world, shape, [&](int /*color*/, int key, int size, const char* name, CommRole /*role*/) {
            return make_dry_part(world, key, size, name);
          }};
}

ProcessMesh::ProcessMesh(Communicator& world, const MeshShape& shape, const MakeGroup& make)
    : world_(world), shape_(shape) {
  TRIREME_EXPECTS(shape.pipeline > 0 && shape.data > 0 && shape.tensor > 0,
                  "a mesh of pipeline {} x data {} x tensor {}", shape.pipeline, shape.data,
                  shape.tensor);
  if (world.size() != shape.size()) {
    fail(ExitCode::config,
         "parallel: pipeline {} x data {} x tensor {} needs {} ranks, but {} were started; start "
         "{} ranks or change the sizes",
         shape.pipeline, shape.data, shape.tensor, shape.size(), world.size(), shape.size());
  }
  TRIREME_EXPECTS(shape.shard > 0 && shape.data % shape.shard == 0,
                  "{} data ranks in ZeRO groups of {}", shape.data, shape.shard);
  here_ = coordinates_of(shape, world.rank());
  // A group's color is the rank of its first member: this rank's coordinates with the group's axis
  // set to zero.
  // One of one rank needs no split, which is an exchange of all ranks.
  const auto group = [&](MeshCoordinates first, int key, int size, const char* name,
                         CommRole role = CommRole::control) -> std::unique_ptr<Communicator> {
    if (size == 1) return std::make_unique<SingleCommunicator>(name);
    return make(rank_of(shape, first), key, size, name, role);
  };
  data_ = group({here_.pipeline, 0, here_.tensor}, here_.data, shape.data, "data", CommRole::data);
  tensor_ = group({here_.pipeline, here_.data, 0}, here_.tensor, shape.tensor, "tensor",
                  CommRole::tensor);
  pipeline_ = group({0, here_.data, here_.tensor}, here_.pipeline, shape.pipeline, "pipeline");
  model_ = group({0, here_.data, 0}, here_.pipeline * shape.tensor + here_.tensor,
                 shape.pipeline * shape.tensor, "model");
  const int in_group = here_.data % shape.shard;
  const auto zero_group = [&](const char* name, CommRole role) {
    return group({here_.pipeline, here_.data - in_group, here_.tensor}, in_group, shape.shard, name,
                 role);
  };
  zero_ = replicas_ = data_;
  if (shape.shard > 1 && shape.shard < shape.data) {
    zero_ = zero_group("zero", CommRole::data);
    replicas_ = group({here_.pipeline, in_group, here_.tensor}, here_.data / shape.shard,
                      shape.data / shape.shard, "replicas", CommRole::data);
  } else if (shape.data > 1) {
    (shape.shard == 1 ? zero_ : replicas_) = make_single_communicator();
  }
  gather_ = shape.shard > 1 ? zero_group("zero.gather", CommRole::gather) : zero_;
}

std::vector<Communicator*> ProcessMesh::zero_groups() const {
  std::vector<Communicator*> groups;
  for (Communicator* const each : {zero_.get(), replicas_.get(), gather_.get()})
    if (each->size() > 1 && each != data_.get()) groups.push_back(each);
  return groups;
}

void ProcessMesh::set_doubled(int ranks) const {
  TRIREME_EXPECTS(replicas_->size() == 1 || ranks % shape_.shard == 0,
                  "{} doubled data ranks do not fill ZeRO groups of {}", ranks, shape_.shard);
  data_->set_doubled(ranks);
  if (replicas_ != data_ && replicas_->size() > 1) replicas_->set_doubled(ranks / shape_.shard);
}

}  // namespace trireme
