// SPDX-License-Identifier: Apache-2.0
// Small models of tables and of 1-D signals: convolutions along the signal, each with batch norm
// and ReLU and of stride 2, then dense layers with ReLU. Without convolutions a multilayer
// perceptron.
#pragma once

#include <vector>

#include "models/heads/head_options.h"
#include "runtime/config/key_table.h"
#include "runtime/nn/model.h"

namespace trireme {

inline constexpr std::string_view mlp_name = "mlp";

// The keys of the model section for family mlp; mlp.cpp documents them.
struct MlpOptions {
  std::int64_t length = 1;  // of signals; tables: 1
  std::int64_t channels = 3;
  std::vector<std::int64_t> convolutions = {};
  std::int64_t kernel_size = 5;
  std::vector<std::int64_t> dense = {128, 64};
  double dropout = 0;
  HeadKind head = HeadKind::automatic;
  std::int64_t classes = 1000;
  std::int64_t targets = 4;
  friend bool operator==(const MlpOptions&, const MlpOptions&) = default;
};

// Inputs (micro_batch, 1, length, channels) f32; targets (micro_batch) i32, or (micro_batch, K) f32
// of values and labels.
[[nodiscard]] Chain mlp_chain(const MlpOptions& options, const HeadChoice& head);

[[nodiscard]] config::ModelFamily mlp_family();
[[nodiscard]] Chain mlp_chain(const Config& config);

}  // namespace trireme
