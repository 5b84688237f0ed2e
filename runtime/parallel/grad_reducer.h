// SPDX-License-Identifier: Apache-2.0
// Sums gradients over micro-batches and over the data-parallel group. Overlapped: a bucket goes to
// the comm stream as soon as its last gradient is there, while backward goes on (Li et al., PyTorch
// Distributed, VLDB 2020). Inline: the same buckets, waited for at once. Both give the same bits.
//
// ZeRO stages 0 and 1 sum the micro-batches first and reduce (0: all-reduce, 1: reduce-scatter)
// with the last of them. Stages 2 and 3 keep no whole gradients: every micro-batch reduces each
// layer's into the ranks' slices and gives the memory back.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/comm/timing/stream_clock.h"
#include "runtime/config/choices.h"
#include "runtime/nn/layer.h"
#include "runtime/parallel/rounded_sum.h"

namespace trireme {

// How the gradients of a rank's micro-batches add up.
enum class GradientSum : std::uint8_t {
  running,  // one after another into the same memory
  // As a balanced binary tree over the micro-batch index, of which the tree over ranks
  // (communicator.h) is the top: the same bits whoever holds which micro-batch.
  tree
};

// Told of the gradients that a micro-batch alone has left in a bucket of weights, before they are
// added to others: where they add up as a tree, below ZeRO stage 2.
class GradientProbe {
 public:
  virtual ~GradientProbe() = default;
  virtual void add_micro_batch(Stream& compute, int bucket, const Tensor& gradients) = 0;
};

struct ReducerOptions {
  ReducerMode mode = ReducerMode::overlapped;
  GradientSum sum = GradientSum::running;
  DType sent = DType::f32;        // of messages between ranks; sums are f32
  int micro_batches = 1;          // of this rank
  std::vector<UnitRange> chunks;  // the layers of each chunk
};

// Where partial sums are while micro-batches come in: the binary counter over `m` that makes the
// tree. A pure function.
struct PartialSums {
  GradientSum sum = GradientSum::running;
  bool sharded = false;  // each micro-batch arrives complete in memory of its own (stages 2 and 3)
  int micro_batches = 1;
  [[nodiscard]] int levels() const;
  [[nodiscard]] int leaf(int m) const;    // level that micro-batch m accumulates into
  [[nodiscard]] int merges(int m) const;  // how many times the top level is added to the one below
};

class GradReducer final : public GradientSink {
 public:
  // `group` and `params` must outlive the reducer. `comm` is the stream of the group's collectives.
  GradReducer(Device& device, Communicator& group, ParamStore& params, Stream& compute,
              Stream& comm, const ReducerOptions& options);
  // What StoreOptions::gradient_levels must be.
  [[nodiscard]] static int levels(const ReducerOptions& options, int zero_stage);

  // Until the next call; null: nobody looks.
  void set_probe(GradientProbe* probe) { probe_ = probe; }
  // Of this rank from the next step on; at most those of the options.
  void set_micro_batches(int count);
  void begin_step(std::int64_t step = 0);
  // Around the forward of a micro-batch, which collects running statistics.
  void before_forward(int chunk, int micro_batch);
  void after_forward(int chunk, int micro_batch);
  // Around the pass that accumulates parameter gradients. In between each parameter reports ready
  // once.
  void before_backward(int chunk, int micro_batch);
  void open_unit(int unit);
  void ready(ParamId id) override;
  void after_backward(int chunk, int micro_batch);
  // Enqueues what is left; the comm stream has the sums in level 0 of the store.
  void finish();
  // The compute stream continues when the comm stream is done so far.
  void join();
  // How long the comm stream reduced gradients in a step that is done: what was hidden behind
  // backward and what was not.
  [[nodiscard]] double milliseconds(std::int64_t step) const { return clock_.milliseconds(step); }

 private:
  struct Span {
    std::int64_t first = 0, count = 0;
  };
  struct Chunk {
    UnitRange units{};
    std::vector<int> buckets;
    Span weights, statistics;  // in the arenas of partial sums
    int micro_batch = -1;      // in backward now
  };
  [[nodiscard]] bool sharded_gradients() const { return params_.options().zero.stage >= 2; }
  // With stages 2 and 3 neighbouring micro-batches are on different ranks, so the tree joins ranks
  // below the micro-batches of one rank; statistics must follow.
  [[nodiscard]] bool ranks_first() const {
    return sharded_gradients() && options_.sum == GradientSum::tree;
  }
  [[nodiscard]] bool last(int micro_batch) const {
    return micro_batch + 1 == options_.micro_batches;
  }
  [[nodiscard]] Tensor partial(const Span& span, int level) const;
  void zero(Stream& stream, const Span& span, int level);
  void merge(Stream& stream, const Span& span, int leaf, int merges);
  void sum_over_ranks(const Bucket& bucket, int level);
  void launch(const Bucket& bucket, int micro_batch);
  void scatter(const Bucket& bucket, int micro_batch);
  void hand_over();
  [[nodiscard]] Chunk& chunk_of(int unit);

  Device& device_;
  Communicator& group_;
  ParamStore& params_;
  Stream& compute_;
  Stream& comm_;
  ReducerOptions options_;
  GradientProbe* probe_ = nullptr;
  PartialSums weights_, statistics_;
  std::optional<RoundedSum> rounded_;  // of weights' gradients, where they are not sent in f32
  StreamClock clock_;
  std::vector<Chunk> chunks_;
  std::vector<std::string> labels_;  // by bucket
  std::vector<int> missing_;         // by bucket: parameters that have not reported
  int next_buffer_ = 0;
  std::vector<int> buffer_of_unit_;
  std::unique_ptr<Event> ready_event_, reduced_event_;
  std::vector<std::unique_ptr<Event>> buffer_free_;
  std::vector<bool> buffer_used_;  // in this step, so that its event means something
};

}  // namespace trireme
