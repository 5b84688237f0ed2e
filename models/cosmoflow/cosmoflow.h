// SPDX-License-Identifier: Apache-2.0
// CosmoFlow (Mathuriya et al., 2018), layer by layer as the reference of MLPerf HPC: a cube of
// channels is halved by convolutions with max pooling, and three dense layers predict the values.
// Five halvings of 128^3 x 4 with 32 filters are the benchmark's 8.9 M parameters; smaller cubes
// take fewer.
#pragma once

#include "runtime/config/key_table.h"
#include "runtime/nn/model.h"

namespace trireme {

inline constexpr std::string_view cosmoflow_name = "cosmoflow";

// The keys of the model section for family cosmoflow; cosmoflow.cpp documents them.
struct CosmoFlowOptions {
  std::int64_t size = 128;
  std::int64_t channels = 3;  // shared with the image families, and so is its default
  std::int64_t targets = 4;
  std::int64_t filters = 32;  // of the first convolution; each next one has twice as many
  std::int64_t halvings = 5;  // convolutions, each with max pooling by 2
  std::vector<std::int64_t> dense = {128, 64};
  double dropout = 0;         // after each dense layer but the last
  double leaky_slope = 0.3;   // of LeakyReLU; Keras' default
  double target_scale = 1.2;  // predictions are target_scale * tanh(x); 0: x
  friend bool operator==(const CosmoFlowOptions&, const CosmoFlowOptions&) = default;
};

// Inputs (micro_batch, size, size, size, channels) f32; targets (micro_batch, targets) f32.
// The loss is that of `train`.
[[nodiscard]] Chain cosmoflow_chain(const CosmoFlowOptions& options, const TrainConfig& train = {});

[[nodiscard]] config::ModelFamily cosmoflow_family();
[[nodiscard]] Chain cosmoflow_chain(const Config& config);

}  // namespace trireme
