// SPDX-License-Identifier: Apache-2.0
// How the weights of a model and their gradients are spread, over all ranks and on every layout,
// and which weights have no gradient at all. Each value is counted once: by the rank that owns it.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "runtime/comm/host_stream.h"
#include "runtime/comm/process_mesh.h"
#include "runtime/nn/param_store.h"
#include "runtime/telemetry/snapshots.h"

namespace trireme {

// Of values by size: two bins to a power of two from 2^-32 to 2^16, of either sign, one for what is
// smaller, and the outermost for all that is larger. Not finite values are in none.
class SizeBins {
 public:
  static constexpr int of_sign = 96, count = 2 * of_sign + 1;
  [[nodiscard]] static int bin_of(float value);
  static void add(std::span<const float> values, std::span<double> bins);
  // Rows of (left, right, count), without the empty bins at both ends; none of nothing.
  [[nodiscard]] static std::vector<double> rows_of(std::span<const double> bins);
};

class ValueCounts {
 public:
  // `weights`: names of the chain's trained weights, equal on all ranks. The references must
  // outlive this, which has memory for values while it reads them.
  ValueCounts(Device& device, const ProcessMesh& mesh, const ParamStore& params,
              std::vector<std::string> weights);

  // Between two steps, with the last one's gradients: "weights/NAME" and "gradients/NAME"; where
  // the loss is scaled, gradients are too. Rank 0's are whole. Collective; blocks the host.
  [[nodiscard]] std::vector<TensorHistogram> histograms(Stream& compute);
  // The weights whose gradient is 0 everywhere. Reads little of those that have one. Collective;
  // blocks the host.
  [[nodiscard]] std::vector<std::string> without_gradient(Stream& compute);

 private:
  // What this rank counts of a weight.
  struct Region {
    std::size_t weight = 0;  // in weights_
    Tensor values{}, gradients{};
  };
  // In pieces, until `look` has seen enough and returns false.
  template <typename Look>
  void read(Stream& compute, const Buffer& piece, const Tensor& tensor, Look look) const;

  Device& device_;
  Communicator& world_;
  std::vector<std::string> weights_;
  std::vector<Region> regions_;
  HostStream host_;
};

}  // namespace trireme
