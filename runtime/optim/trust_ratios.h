// SPDX-License-Identifier: Apache-2.0
// The step lengths of LAMB, LARS and Adafactor along each logical tensor's direction: from the
// norms of tensor and direction, over all ranks that hold parts of them.
#pragma once

#include <vector>

#include "runtime/nn/param_layout.h"
#include "runtime/ops/update/optimizer_update.h"

namespace trireme {

class TrustRatios {
 public:
  TrustRatios(Device& device, const ParamLayout& layout);

  // The number of a parameter's logical tensor (ParamMatrix::tensor) among all.
  [[nodiscard]] std::int64_t number(ParamId id, int tensor) const {
    return first_[static_cast<std::size_t>(id.index)] + tensor;
  }
  // This rank's part of a tensor and its direction, counted once among the ranks that hold it.
  struct Run {
    std::int64_t tensor = 0;  // number()
    Tensor parameter{}, direction{};
  };
  // Sets the input of sum(). `exact` as in OptimizerOptions.
  void measure(Stream& stream, std::vector<Run> runs, bool exact);
  // Makes the ratios those with counts (ops::trust_ratios).
  void count_elements(Stream& stream);
  // Sums the squares of all runs.
  void sum(Stream& stream);
  // To be added over the ranks that hold parts of a parameter, between sum and finish.
  [[nodiscard]] Tensor sums() const;
  void finish(Stream& stream, const Tensor& scalars, const ops::TrustOptions& options);
  // (2) f32, from ops::trust_ratios; 1 if nothing was measured.
  [[nodiscard]] Tensor ratio(std::int64_t tensor) const;

 private:
  [[nodiscard]] Tensor squares() const;

  Device& device_;
  std::vector<std::int64_t> first_;  // by parameter: its first tensor
  std::vector<double> elements_;     // by tensor
  std::int64_t tensors_ = 0;
  Buffer squares_;  // (tensors, 2) f64: of parameter and direction
  Buffer states_;   // (tensors, 2, exact_sum_words) u64
  Buffer ratios_;   // (tensors, 2) f32
  Buffer counts_;   // (tensors) f64, or nothing
  ops::SquaresTable table_;
};

}  // namespace trireme
