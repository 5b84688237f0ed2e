// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <memory>

#include "runtime/comm/process_mesh.h"
#include "runtime/nn/layer.h"
#include "runtime/ops/update/loss_sums.h"

namespace trireme {

// Sums of losses, correct predictions (of values: absolute errors) and counted targets, kept per
// micro-batch, or per block of its sequences where these are cut in time, until complete and then
// added in the order of the whole pass: the same bits whichever rank computed them. Read back later
// without stopping the streams.
class LossTotals {
 public:
  struct Values {
    double loss = 0;  // summed over targets
    double correct = 0;
    double second = 0, third = 0;  // in evaluations: LossSums
    double targets = 0;            // counted ones: neither ignored_target nor NaN
    double samples = 0, thirds = 0;
    template <typename Number>
    void add(const Number* sums) {  // in the order of LossSums
      for (double* const to : {&loss, &correct, &second, &third, &targets, &samples, &thirds})
        *to += static_cast<double>(*sums++);
    }
    // Divisor of means: at least 1.
    [[nodiscard]] double divisor() const { return std::max(samples > 0 ? samples : targets, 1.0); }
  };

  // `batches`: micro-batches of each rank; `turns`: sample ranks that take them in turn
  // (BatchSlices); `blocks`: of each micro-batch, on this rank (ContextSplit::local). The mesh must
  // outlive this.
  LossTotals(Device& device, const ProcessMesh& mesh, std::int64_t batches, std::int64_t turns,
             std::int64_t blocks = 1);

  void reset(Stream& compute);
  // Adds the head's results and the targets of the context: of this rank's row `index`, which is
  // micro-batch * blocks + block.
  void add(const Context& context, std::int64_t index);
  // In an evaluation: its targets' ranks (TargetRanks), or its samples' scores (MapScores), which
  // of pixels are all.
  void add_ranks(Stream& stream, std::int64_t index, const Tensor& ranks);
  void add_scores(Stream& stream, std::int64_t index, const Tensor& scores);
  // After the last add: sends the sums to every rank, on the comm stream, and starts the copy to
  // the host. Only the last pipeline stage has added any. After joining the comm stream, gathered()
  // is readable.
  void publish(Stream& compute, Stream& comm);
  // (data ranks * batches * blocks, ops::LossSums::count) f64 on the device: data rank 0, then 1,
  // ...
  [[nodiscard]] Tensor gathered() const;
  [[nodiscard]] const ops::SumsOrder& order() const { return order_; }
  // Blocks until published values are on the host, which also holds after later work of a stream
  // that joined the comm stream.
  void wait();
  [[nodiscard]] Values read() const;
  // Over the micro-batches [first, end) of the whole pass.
  [[nodiscard]] Values read(std::int64_t first, std::int64_t end) const;

 private:
  // Of one row, LossSums.
  [[nodiscard]] Tensor sums_of(std::int64_t index) const;

  Device& device_;
  const ProcessMesh& mesh_;
  ops::SumsOrder order_;
  std::int64_t rows_;         // batches * blocks
  Buffer sums_, all_, host_;  // (rows, LossSums), (data ranks, rows, LossSums) twice: f64
  std::unique_ptr<Event> added_, copied_;
};

}  // namespace trireme
