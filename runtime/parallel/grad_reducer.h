// SPDX-License-Identifier: Apache-2.0
// Sums gradients over the data-parallel group. The gradient arena is cut into buckets: contiguous
// ranges, in the order in which backward finishes them. Overlapped: a bucket goes to the comm
// stream as soon as its last gradient is there, while backward goes on (Li et al., PyTorch
// Distributed, VLDB 2020). Inline: the same buckets, one after another, after backward. Both give
// the same bits.
#pragma once

#include <memory>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/nn/layer.h"

namespace trireme {

enum class ReducerMode : std::uint8_t { overlapped, inline_after_backward };

struct Bucket {
  std::int64_t first = 0;  // element range of the gradient arena
  std::int64_t count = 0;
  int params = 0;  // how many parameters must report before it is complete
};

// Cuts the arena at parameter borders into runs of at least `target_elements` (the last may be
// shorter). `bucket_of[i]` receives the bucket of parameter i. A pure function: equal on all ranks.
[[nodiscard]] std::vector<Bucket> make_buckets(const ParamStore& params,
                                               std::int64_t target_elements,
                                               std::vector<int>& bucket_of);

class GradReducer final : public GradientSink {
 public:
  // `group` and `params` must outlive the reducer. `comm` is the stream for overlapped collectives.
  GradReducer(Device& device, Communicator& group, const ParamStore& params, Stream& compute,
              Stream& comm, ReducerMode mode, std::int64_t bucket_bytes);

  // Call before the backward of the step's last micro-batch; only that one reports gradients here.
  void begin();
  void ready(ParamId id) override;
  // Enqueues what is left and makes the compute stream wait for all buckets.
  void finish();

  [[nodiscard]] const std::vector<Bucket>& buckets() const { return buckets_; }

 private:
  void launch(std::size_t bucket);

  Communicator& group_;
  const ParamStore& params_;
  Stream& compute_;
  Stream& comm_;
  ReducerMode mode_;
  std::vector<int> bucket_of_;  // filled while buckets_ is made: keep this order
  std::vector<Bucket> buckets_;
  std::vector<int> missing_;
  std::unique_ptr<Event> gradients_there_, reduced_;
};

}  // namespace trireme
