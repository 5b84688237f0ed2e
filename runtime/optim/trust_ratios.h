// SPDX-License-Identifier: Apache-2.0
// How far LAMB, LARS and Adafactor step along each tensor's direction: from the norms of tensor and
// direction, over all ranks that hold parts of them.
#pragma once

#include <vector>

#include "runtime/nn/param_layout.h"
#include "runtime/ops/update/optimizer_update.h"

namespace trireme {

class TrustRatios {
 public:
  TrustRatios(Device& device, const ParamLayout& layout);

  // The part of parameter and direction that a run has, once among the ranks that hold it.
  struct Run {
    ParamId param{};
    Tensor parameter{}, direction{};
  };
  // What sum() takes: at most one run of a parameter. `exact` as in OptimizerRanks.
  void measure(Stream& stream, std::vector<Run> runs, bool exact);
  // The ratios are those with counts (ops::trust_ratios).
  void count_elements(Stream& stream, const ParamLayout& layout);
  // The sums of squares of all of it.
  void sum(Stream& stream);
  // What is to be added over the ranks that hold parts of a parameter, between sum and finish.
  [[nodiscard]] Tensor sums() const;
  void finish(Stream& stream, const Tensor& scalars, const ops::TrustOptions& options);
  // (2) f32, of ops::trust_ratios; 1 where nothing was measured.
  [[nodiscard]] Tensor ratio(ParamId id) const;

 private:
  [[nodiscard]] Tensor squares() const;

  Device& device_;
  std::int64_t params_;
  Buffer squares_;  // (params, 2) f64: of the parameter, of its direction
  Buffer states_;   // (params, 2, exact_sum_words) u64
  Buffer ratios_;   // (params, 2) f32
  Buffer counts_;   // (params) f64, or nothing
  ops::SquaresTable table_;
};

}  // namespace trireme
