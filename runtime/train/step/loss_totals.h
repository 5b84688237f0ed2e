// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <memory>

#include "runtime/comm/process_mesh.h"
#include "runtime/nn/layer.h"

namespace trireme {

// Sums of losses, correct predictions (of values: absolute errors) and counted targets, kept per
// micro-batch until complete and then added in the order of the whole pass: the same bits whichever
// rank computed them. Read back later without stopping the streams.
class LossTotals {
 public:
  struct Values {
    double loss = 0;  // summed over targets
    double correct = 0;
    double second = 0, third = 0;  // in evaluations: LossSums
    double targets = 0;            // counted ones: neither ignored_target nor NaN
    // Divisor of means: at least 1.
    [[nodiscard]] double divisor() const { return std::max(targets, 1.0); }
  };

  // `batches`: micro-batches of each rank; `turns`: ranks that take them in turn (BatchSlices). The
  // mesh must outlive this.
  LossTotals(Device& device, const ProcessMesh& mesh, std::int64_t batches, std::int64_t turns);

  void reset(Stream& compute);
  // Adds the head's results for this rank's micro-batch `index` from the context.
  void add(const Context& context, std::int64_t index);
  // In an evaluation: its targets' ranks (TargetRanks), or its samples' scores (MapScores).
  void add_ranks(Stream& stream, std::int64_t index, const Tensor& ranks);
  void add_scores(Stream& stream, std::int64_t index, const Tensor& scores);
  // After the last add: sends the sums to every rank, on the comm stream, and starts the copy to
  // the host. Only the last pipeline stage has added any. After joining the comm stream, gathered()
  // is readable.
  void publish(Stream& compute, Stream& comm);
  // (data ranks * batches, ops::LossSums::count) f64 on the device: data-parallel rank 0, then 1,
  // ...
  [[nodiscard]] Tensor gathered() const;
  [[nodiscard]] std::int64_t turns() const { return turns_; }
  [[nodiscard]] std::int64_t batches() const { return batches_; }
  // Blocks until published values are on the host, which also holds after later work of a stream
  // that joined the comm stream.
  void wait();
  [[nodiscard]] Values read() const;
  // Over the micro-batches [first, end) of the whole pass.
  [[nodiscard]] Values read(std::int64_t first, std::int64_t end) const;

 private:
  // Those of a micro-batch, LossSums.
  [[nodiscard]] Tensor sums_of(std::int64_t index) const;

  Device& device_;
  const ProcessMesh& mesh_;
  std::int64_t batches_, turns_;
  Buffer sums_, all_, host_;  // (batches, LossSums), (data ranks, batches, LossSums) twice: f64
  std::unique_ptr<Event> added_, copied_;
};

}  // namespace trireme
