// SPDX-License-Identifier: Apache-2.0
// How far LAMB and LARS step along each tensor's direction: from the norms of tensor and direction,
// over all ranks that hold parts of them.
#pragma once

#include "runtime/nn/param_layout.h"
#include "runtime/ops/update/optimizer_update.h"

namespace trireme {

class TrustRatios {
 public:
  // `exact` as in OptimizerRanks.
  TrustRatios(Device& device, const ParamLayout& layout, bool exact);

  void clear(Stream& stream);
  // The part of parameter and direction in this run, once among the ranks that hold it.
  void add(Stream& stream, const OwnedRun& run, const Tensor& parameter, const Tensor& direction);
  // What is to be summed over the ranks that hold parts of a parameter, between add and finish.
  [[nodiscard]] Tensor sums() const;
  void finish(Stream& stream, const Tensor& scalars, const ops::TrustOptions& options);
  // (1) f32; 1 where nothing was added.
  [[nodiscard]] Tensor ratio(ParamId id) const;

 private:
  [[nodiscard]] Tensor squares() const;

  Device& device_;
  std::int64_t params_;
  bool exact_;
  Buffer squares_;  // (params, 2) f64: of the parameter, of its direction
  Buffer states_;   // (params, 2, exact_sum_words) u64
  Buffer ratios_;   // (params) f32
};

}  // namespace trireme
