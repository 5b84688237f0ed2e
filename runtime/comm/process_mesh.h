// SPDX-License-Identifier: Apache-2.0
// rank <-> (pipeline, data, tensor) as a pure function:
//   rank = (pipeline * data_size + data) * tensor_size + tensor
// Tensor varies fastest, so that a tensor group, which communicates most, stays inside a node;
// pipeline varies slowest. Context-parallel ranks are data ranks: of C of them,
//   data = sample * C + context
// where ranks of equal `sample` read the same samples.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/comm/communicator.h"

namespace trireme {

struct MeshShape {
  int pipeline = 1;
  int data = 1;
  int tensor = 1;
  // Consecutive data ranks that share ZeRO's slices; data / shard such groups hold the same. 1: no
  // slices, every data rank holds the same.
  int shard = 1;
  // Consecutive data ranks that share experts out among them, with all their tensor ranks; divides
  // data, and divides shard or is a multiple of it.
  int expert = 1;
  // Consecutive data ranks: context parallelism, each with its rows of the sequences; divides data.
  int context = 1;
  // Shares of the samples.
  [[nodiscard]] constexpr int sample_ranks() const { return data / context; }
  // Of ranks with the same experts, those with other ZeRO slices of them.
  [[nodiscard]] constexpr int expert_shard() const { return shard > expert ? shard / expert : 1; }
  [[nodiscard]] constexpr int size() const { return pipeline * data * tensor; }
  friend constexpr bool operator==(const MeshShape&, const MeshShape&) = default;
};

struct MeshCoordinates {
  int pipeline = 0;
  int data = 0;
  int tensor = 0;
  friend constexpr bool operator==(const MeshCoordinates&, const MeshCoordinates&) = default;
};

// Which share of the samples a rank reads, of sample_ranks().
[[nodiscard]] constexpr int sample_of(const MeshShape& shape, const MeshCoordinates& at) {
  return at.data / shape.context;
}

[[nodiscard]] constexpr int rank_of(const MeshShape& shape, const MeshCoordinates& at) {
  return (at.pipeline * shape.data + at.data) * shape.tensor + at.tensor;
}

[[nodiscard]] constexpr MeshCoordinates coordinates_of(const MeshShape& shape, int rank) {
  return {rank / (shape.data * shape.tensor), rank / shape.tensor % shape.data,
          rank % shape.tensor};
}

// The world rank of rank `rank` in the group `group` that contains the rank at `here`. Groups:
// "world", "data", "zero", "replicas", "tensor", "pipeline", "model", "experts", "expert_zero",
// "expert_replicas", "context"; "pipeline.forward0" counts as "pipeline". Nothing for other names.
[[nodiscard]] std::optional<int> world_rank_in(const MeshShape& shape, const MeshCoordinates& here,
                                               std::string_view group, int rank);

// The groups of this rank. Owns the communicators; construction is collective.
class ProcessMesh {
 public:
  // `world.size()` must equal shape.size(). `world` must outlive the mesh.
  ProcessMesh(Communicator& world, const MeshShape& shape);
  // The same groups without peers (dry.h), for rank world.rank(). Not collective.
  [[nodiscard]] static ProcessMesh dry(Communicator& world, const MeshShape& shape);

  [[nodiscard]] const MeshShape& shape() const { return shape_; }
  [[nodiscard]] const MeshCoordinates& here() const { return here_; }
  [[nodiscard]] Communicator& world() const { return world_; }
  [[nodiscard]] Communicator& data() const { return *data_; }      // same pipeline and tensor index
  [[nodiscard]] Communicator& tensor() const { return *tensor_; }  // same pipeline and data index
  [[nodiscard]] Communicator& pipeline() const { return *pipeline_; }  // same data and tensor index
  // All ranks with the same data index: one replica of the model.
  [[nodiscard]] Communicator& model() const { return *model_; }
  // Of the data group: the ranks with the other shards, and the replicas of this rank's shard. A
  // sum over zero(), then over replicas(), is a sum over the data group. One of the two is the data
  // group itself unless 1 < shard < data; a group of one rank is an identity.
  [[nodiscard]] Communicator& zero() const { return *zero_; }
  [[nodiscard]] Communicator& replicas() const { return *replicas_; }
  // The ranks of zero() again, for gathers that must not wait for reductions.
  [[nodiscard]] Communicator& gather() const { return *gather_; }
  // The ranks of a stage that share experts out among them: shape().expert consecutive data ranks
  // with all their tensor ranks, in that order. tensor() itself if that is one data rank.
  [[nodiscard]] Communicator& experts() const { return *experts_; }
  // The context-parallel ranks: shape().context consecutive data ranks with the same pipeline
  // and tensor index.
  [[nodiscard]] Communicator& context() const { return *context_; }
  // zero(), replicas() and gather() for parameters of experts, among the ranks with the same
  // experts: the same groups if shape().expert is 1.
  [[nodiscard]] Communicator& expert_zero() const { return *of_experts_.zero; }
  [[nodiscard]] Communicator& expert_replicas() const { return *of_experts_.replicas; }
  [[nodiscard]] Communicator& expert_gather() const { return *of_experts_.gather; }
  // Those of these eight that are neither data() nor tensor(), each once, with more than one rank.
  [[nodiscard]] std::vector<Communicator*> zero_groups() const;
  // Communicator::set_doubled for all groups that sum over data ranks: the first `ranks` of them,
  // whole ZeRO groups and groups that share experts.
  void set_doubled(int ranks) const;

 private:
  // Makes one axis's group of `size` ranks: those of equal color, ordered by key.
  using MakeGroup = std::function<std::unique_ptr<Communicator>(int color, int key, int size,
                                                                const char* name, CommRole role)>;
  ProcessMesh(Communicator& world, const MeshShape& shape, const MakeGroup& make);

  Communicator& world_;
  MeshShape shape_;
  MeshCoordinates here_;
  struct Groups {
    std::shared_ptr<Communicator> zero, replicas, gather;
  };
  [[nodiscard]] Groups expert_groups(const MakeGroup& make) const;

  std::unique_ptr<Communicator> pipeline_, model_;
  std::shared_ptr<Communicator> tensor_, experts_, context_, data_, zero_, replicas_, gather_;
  Groups of_experts_;
};

}  // namespace trireme
