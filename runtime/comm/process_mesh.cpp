// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/process_mesh.h"

#include "runtime/comm/dry.h"

namespace trireme {

std::optional<int> world_rank_in(const MeshShape& shape, const MeshCoordinates& here,
                                 std::string_view group, int rank) {
  const std::string_view axis = group.substr(0, group.find('.'));
  if (axis == "world") return rank;
  if (axis == "data") return rank_of(shape, {here.pipeline, rank, here.tensor});
  if (axis == "tensor") return rank_of(shape, {here.pipeline, here.data, rank});
  if (axis == "pipeline") return rank_of(shape, {rank, here.data, here.tensor});
  if (axis == "model") return rank_of(shape, {rank / shape.tensor, here.data, rank % shape.tensor});
  return std::nullopt;
}

ProcessMesh::ProcessMesh(Communicator& world, const MeshShape& shape)
    : ProcessMesh(world, shape, [&](int color, int key, int /*size*/, const char* name) {
        return world.split(color, key, name);
      }) {}

ProcessMesh ProcessMesh::dry(Communicator& world, const MeshShape& shape) {
  return {world, shape, [](int /*color*/, int key, int size, const char* name) {
            return make_dry_communicator(key, size, name);
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
  here_ = coordinates_of(shape, world.rank());
  // A group's color is the rank of its first member: this rank's coordinates with the group's axis
  // set to zero.
  const auto group = [&](MeshCoordinates first, int key, int size, const char* name) {
    return make(rank_of(shape, first), key, size, name);
  };
  data_ = group({here_.pipeline, 0, here_.tensor}, here_.data, shape.data, "data");
  tensor_ = group({here_.pipeline, here_.data, 0}, here_.tensor, shape.tensor, "tensor");
  pipeline_ = group({0, here_.data, here_.tensor}, here_.pipeline, shape.pipeline, "pipeline");
  model_ = group({0, here_.data, 0}, here_.pipeline * shape.tensor + here_.tensor,
                 shape.pipeline * shape.tensor, "model");
}

}  // namespace trireme
