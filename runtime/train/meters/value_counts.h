// SPDX-License-Identifier: Apache-2.0
// Histograms of a model's weights and gradients, over all ranks in every layout, and weights
// without any gradient. Each value is counted once, by the rank that owns it.
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

// Bins of values by size: two per power of two from 2^-32 to 2^16, for each sign, one for smaller
// values, and the outermost for all larger ones. Excludes non-finite values.
class SizeBins {
 public:
  static constexpr int of_sign = 96, count = 2 * of_sign + 1;
  [[nodiscard]] static int bin_of(float value);
  static void add(std::span<const float> values, std::span<double> bins);
  // Rows of (left, right, count), without empty bins at both ends; empty if there are no values.
  [[nodiscard]] static std::vector<double> rows_of(std::span<const double> bins);
};

class ValueCounts {
 public:
  // `weights`: names of the chain's trained weights, equal on all ranks. The references must
  // outlive this, which allocates memory while it reads values.
  ValueCounts(Device& device, const ProcessMesh& mesh, const ParamStore& params,
              std::vector<std::string> weights);

  // Between two steps, with the last one's gradients (scaled if the loss is): "weights/NAME" and
  // "gradients/NAME". Complete on rank 0. Collective; blocks the host.
  [[nodiscard]] std::vector<TensorHistogram> histograms(Stream& compute);
  // The weights with an all-zero gradient. Reads little of the others. Collective; blocks the host.
  [[nodiscard]] std::vector<std::string> without_gradient(Stream& compute);

 private:
  // This rank's counted part of a weight.
  struct Region {
    std::size_t weight = 0;  // in weights_
    Tensor values{}, gradients{};
  };
  // In pieces, until `look` returns false.
  template <typename Look>
  void read(Stream& compute, const Buffer& piece, const Tensor& tensor, Look look) const;

  Device& device_;
  Communicator& world_;
  std::vector<std::string> weights_;
  std::vector<Region> regions_;
  HostStream host_;
};

}  // namespace trireme
