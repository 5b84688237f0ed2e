// SPDX-License-Identifier: Apache-2.0
// The step lengths of LAMB, LARS and Adafactor along each tensor's direction: from the norms of
// tensor and direction, over all ranks that hold parts of them.
#pragma once

#include <vector>

#include "runtime/nn/param_layout.h"
#include "runtime/ops/update/optimizer_update.h"

namespace trireme {

class TrustRatios {
 public:
  TrustRatios(Device& device, const ParamLayout& layout);

  // This rank's part of a parameter and its direction, counted once among the ranks that hold it.
  struct Run {
    ParamId param{};
    Tensor parameter{}, direction{};
  };
  // Sets the input of sum(): at most one run per parameter. `exact` as in OptimizerRanks.
  void measure(Stream& stream, std::vector<Run> runs, bool exact);
  // Makes the ratios those with counts (ops::trust_ratios).
  void count_elements(Stream& stream, const ParamLayout& layout);
  // Sums the squares of all runs.
  void sum(Stream& stream);
  // To be added over the ranks that hold parts of a parameter, between sum and finish.
  [[nodiscard]] Tensor sums() const;
  void finish(Stream& stream, const Tensor& scalars, const ops::TrustOptions& options);
  // (2) f32, from ops::trust_ratios; 1 if nothing was measured.
  [[nodiscard]] Tensor ratio(ParamId id) const;

 private:
  [[nodiscard]] Tensor squares() const;

  Device& device_;
  std::int64_t params_;
  Buffer squares_;  // (params, 2) f64: of parameter and direction
  Buffer states_;   // (params, 2, exact_sum_words) u64
  Buffer ratios_;   // (params, 2) f32
  Buffer counts_;   // (params) f64, or nothing
  ops::SquaresTable table_;
};

}  // namespace trireme
