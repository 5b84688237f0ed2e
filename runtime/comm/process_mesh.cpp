// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/process_mesh.h"

#include <algorithm>

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
  if (axis == "context")
    return rank_of(shape,
                   {here.pipeline, sample_of(shape, here) * shape.context + rank, here.tensor});
  const int set = here.data / shape.expert * shape.expert;  // the first that shares experts
  if (axis == "experts") return rank_of(shape, {here.pipeline, set, 0}) + rank;
  const int turn = here.data / shape.expert, in_slices = turn % shape.expert_shard();
  const auto with_experts = [&](int number) {
    return rank_of(shape, {here.pipeline, number * shape.expert + here.data - set, here.tensor});
  };
  if (axis == "expert_zero") return with_experts(turn - in_slices + rank);
  if (axis == "expert_replicas") return with_experts(in_slices + rank * shape.expert_shard());
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
  TRIREME_EXPECTS(shape.expert > 0 && shape.data % shape.expert == 0 &&
                      (shape.shard % shape.expert == 0 || shape.expert % shape.shard == 0),
                  "experts on {} of {} data ranks, in ZeRO groups of {}", shape.expert, shape.data,
                  shape.shard);
  TRIREME_EXPECTS(shape.context > 0 && shape.data % shape.context == 0,
                  "sequences on {} of {} data ranks", shape.context, shape.data);
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
  const int in_sample = here_.data % shape.context;
  context_ = group({here_.pipeline, here_.data - in_sample, here_.tensor}, in_sample, shape.context,
                   "context", CommRole::tensor);
  experts_ = tensor_;
  of_experts_ = {zero_, replicas_, gather_};
  if (shape.expert == 1) return;
  const int set = here_.data / shape.expert * shape.expert;
  experts_ = group({here_.pipeline, set, 0}, (here_.data - set) * shape.tensor + here_.tensor,
                   shape.expert * shape.tensor, "experts", CommRole::tensor);
  of_experts_ = expert_groups(make);
}

// The data ranks with the same experts are every shape.expert-th, in runs of expert_shard() that
// hold other slices.
ProcessMesh::Groups ProcessMesh::expert_groups(const MakeGroup& make) const {
  const int shard = shape_.expert_shard(), copies = shape_.data / shape_.expert / shard;
  const int turn = here_.data / shape_.expert, in_slices = turn % shard;
  const auto group = [&](int first_turn, int key, int size, const char* name,
                         CommRole role) -> std::shared_ptr<Communicator> {
    if (size == 1) return std::make_shared<SingleCommunicator>(name);
    const int data = first_turn * shape_.expert + here_.data % shape_.expert;
    return make(rank_of(shape_, {here_.pipeline, data, here_.tensor}), key, size, name, role);
  };
  const int first = turn - in_slices;
  return {group(first, in_slices, shard, "expert_zero", CommRole::data),
          group(in_slices, turn / shard, copies, "expert_replicas", CommRole::data),
          group(first, in_slices, shard, "expert_zero.gather", CommRole::gather)};
}

std::vector<Communicator*> ProcessMesh::zero_groups() const {
  std::vector<Communicator*> groups;
  for (Communicator* const each :
       {zero_.get(), replicas_.get(), gather_.get(), of_experts_.zero.get(),
        of_experts_.replicas.get(), of_experts_.gather.get(), experts_.get(), context_.get()})
    if (each->size() > 1 && each != data_.get() && each != tensor_.get() &&
        std::ranges::find(groups, each) == groups.end())
      groups.push_back(each);
  return groups;
}

void ProcessMesh::set_doubled(int ranks) const {
  TRIREME_EXPECTS(replicas_->size() == 1 || ranks % shape_.shard == 0,
                  "{} doubled data ranks do not fill ZeRO groups of {}", ranks, shape_.shard);
  TRIREME_EXPECTS(ranks % shape_.expert == 0, "{} doubled data ranks, of which {} share experts",
                  ranks, shape_.expert);
  data_->set_doubled(ranks);
  if (replicas_ != data_ && replicas_->size() > 1) replicas_->set_doubled(ranks / shape_.shard);
  if (shape_.expert == 1) return;
  Communicator& copies = expert_replicas();
  if (copies.size() > 1) copies.set_doubled(ranks / shape_.expert / shape_.expert_shard());
  if (copies.size() == 1 && expert_zero().size() > 1)
    expert_zero().set_doubled(ranks / shape_.expert);
}

}  // namespace trireme
