// SPDX-License-Identifier: Apache-2.0
// Sums gradients over micro-batches and the data-parallel group. Overlapped: a bucket goes to the
// comm stream once its last gradient is ready, while backward continues (Li et al., PyTorch
// Distributed, VLDB 2020). Inline: each bucket is waited for at once. Both give the same bits.
//
// Gradients are reduce-scattered in the ZeRO group, and what is left is all-reduced between such
// groups (without ZeRO: whole gradients). Stages 0 and 1 sum the micro-batches first. Stages 2 and
// 3 keep no whole gradients: every micro-batch reduces each layer's gradients into the ranks'
// slices and frees the memory; the last one also sums between groups.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/comm/timing/stall_clock.h"
#include "runtime/config/choices.h"
#include "runtime/nn/layer.h"
#include "runtime/parallel/rounded_sum.h"

namespace trireme {

// How the gradients of a rank's micro-batches are summed.
enum class GradientSum : std::uint8_t {
  running,  // sequentially into the same memory
  // As a balanced binary tree over the micro-batch index, topped by the tree over ranks
  // (communicator.h): the same bits whichever rank holds which micro-batch.
  tree
};

// Called with the gradients of a single micro-batch in a bucket of weights, before they are added
// to others; of experts for each source (ParamStore::gradient). Needs tree sums, below ZeRO
// stage 2.
class GradientProbe {
 public:
  virtual ~GradientProbe() = default;
  virtual void add_micro_batch(Stream& compute, int bucket, const Tensor& gradients,
                               int source) = 0;
};

struct ReducerOptions {
  ReducerMode mode = ReducerMode::overlapped;
  GradientSum sum = GradientSum::running;
  DType sent = DType::f32;        // of messages between ranks; sums are f32
  int micro_batches = 1;          // on this rank
  std::vector<UnitRange> chunks;  // the layers of each chunk
};

// The partial sums that exist while micro-batches arrive: the binary counter over `m` that forms
// the tree. A pure function.
struct PartialSums {
  GradientSum sum = GradientSum::running;
  bool sharded = false;  // each micro-batch arrives complete in its own memory (stages 2 and 3)
  int micro_batches = 1;
  [[nodiscard]] int levels() const;
  [[nodiscard]] int level(int m) const;   // that micro-batch m accumulates into
  [[nodiscard]] int merges(int m) const;  // number of times the top level is added to the one below
};

// ProcessMesh::zero() and replicas(): together the data group. Without ZeRO the first has one rank.
// Those of experts' parameters: expert_zero() and expert_replicas(); null: the same.
struct ReducerGroups {
  Communicator &zero, &replicas;
  Communicator *expert_zero = nullptr, *expert_replicas = nullptr;
};

class GradReducer final : public GradientSink {
 public:
  // Groups and `params` must outlive the reducer. `comm` is the stream of the groups' collectives;
  // of two levels, sums over replicas have a stream of their own, beside the next bucket's in the
  // ZeRO group.
  GradReducer(Device& device, const ReducerGroups& groups, ParamStore& params, Stream& compute,
              Stream& comm, const ReducerOptions& options);
  // The required StoreOptions::gradient_levels.
  [[nodiscard]] static int levels(const ReducerOptions& options, int zero_stage);
  // The required StoreOptions::leaves, if `data_ranks` share experts and this rank has `blocks` of
  // context parallelism: a tree over micro-batches needs what each rank's micro-batch adds on its
  // own, and blocks are leaves below a micro-batch.
  [[nodiscard]] static GradientLeaves leaves(GradientSum sum, int data_ranks, int blocks);

  // Until the next call; null: none.
  void set_probe(GradientProbe* probe) { probe_ = probe; }
  // On this rank from the next step on; at most ReducerOptions::micro_batches.
  void set_micro_batches(int count);
  void begin_step(std::int64_t step = 0);
  // Call around the forward of a micro-batch, which collects running statistics.
  void before_forward(int chunk, int micro_batch);
  void after_forward(int chunk, int micro_batch);
  // Call around the pass that accumulates parameter gradients. In between each parameter reports
  // ready once.
  void before_backward(int chunk, int micro_batch);
  void open_unit(int unit);
  void ready(ParamId id) override;
  void after_backward(int chunk, int micro_batch);
  // Enqueues the remaining reductions; the comm stream has the sums in level 0 of the store.
  void finish();
  // Makes the compute stream wait for the comm stream's work so far.
  void join();
  // Time that the comm stream reduced gradients in a finished step, hidden behind backward or not.
  [[nodiscard]] double milliseconds(std::int64_t step) const { return clock_.milliseconds(step); }

 private:
  struct Span {
    std::int64_t first = 0, count = 0;
  };
  struct Chunk {
    UnitRange units{};
    std::vector<int> buckets;
    Span weights, statistics;  // in the arenas of partial sums
    Span apart;                // in those of leaves behind the first
    int micro_batch = -1;      // now in backward
  };
  // Groups of the sums of a kind of parameters, and how weights are sent in 16 bits.
  struct Sums {
    Sums(Communicator& in_zero, Communicator& in_replicas) : zero(in_zero), replicas(in_replicas) {}
    Communicator &zero, &replicas;
    std::optional<RoundedSum> in_group, over_groups;
  };
  [[nodiscard]] const Sums& sums_of(const Bucket& bucket) const {
    return bucket.expert && of_experts_ ? *of_experts_ : all_;
  }
  void send_rounded(Sums& sums, bool experts);
  [[nodiscard]] bool sharded_gradients() const { return params_.options().zero.stage >= 2; }
  // With stages 2 and 3 adjacent micro-batches are on different ranks of a ZeRO group, so the tree
  // first joins ranks, then the micro-batches of a group, then groups; statistics must follow.
  [[nodiscard]] bool ranks_first() const {
    return sharded_gradients() && options_.sum == GradientSum::tree;
  }
  [[nodiscard]] bool last(int micro_batch) const {
    return micro_batch + 1 == options_.micro_batches;
  }
  // Slices of gradients: so that sums over groups overlap with the last backward.
  [[nodiscard]] bool merges_by_bucket(int micro_batch) const {
    return last(micro_batch) && all_.replicas.size() > 1;
  }
  [[nodiscard]] Span span_apart(const Bucket& bucket) const;  // like Chunk::apart
  [[nodiscard]] Tensor partial(const Span& span, int level, int leaf = 0) const;
  void zero(Stream& stream, const Span& span, int level, int leaf = 0);
  void merge(Stream& stream, const Span& span, int level, int merges, int leaf = 0);
  void merge_leaves(const Span& weights, const Span& apart, int level, int merges);
  void join_leaves(const Bucket& bucket, int level);
  void sum_in_group(const Bucket& bucket, int level);
  void sum_over_groups(const Bucket& bucket, const Tensor& values);
  void launch(const Bucket& bucket, int micro_batch);
  void scatter(const Bucket& bucket, int micro_batch);
  void hand_over();
  void join_levels();
  [[nodiscard]] Chunk& chunk_of(int unit);
  void expect_all_reported(const Chunk& chunk) const;

  Device& device_;
  Sums all_;
  std::optional<Sums> of_experts_;  // if they differ
  ParamStore& params_;
  Stream& compute_;
  Stream& comm_;
  ReducerOptions options_;
  GradientProbe* probe_ = nullptr;
  PartialSums weights_, statistics_;
  GradientLeaves leaves_;
  StreamClock clock_;
  std::vector<Chunk> chunks_;
  std::vector<std::string> labels_;  // by bucket
  std::vector<int> missing_;         // per bucket: parameters that have not reported
  std::vector<bool> reported_;       // per parameter
  int next_buffer_ = 0;
  std::vector<int> buffer_of_unit_;
  std::unique_ptr<Event> ready_event_, reduced_event_, summed_event_;
  std::unique_ptr<Stream> second_;  // of sums over replicas; null: the comm stream
  bool second_busy_ = false;        // since the last join
  std::vector<std::unique_ptr<Event>> buffer_free_;
  std::vector<bool> buffer_used_;  // in this step, so its event is valid
};

}  // namespace trireme
