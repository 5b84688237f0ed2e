// SPDX-License-Identifier: Apache-2.0
// From the config's `model` section to a model: the one place that knows all families.
#pragma once

#include <memory>
#include <string>

#include "runtime/config/config.h"
#include "runtime/nn/model.h"

namespace trireme {

enum class InputKind : std::uint8_t { tokens, images };

struct ModelTraits {
  InputKind input = InputKind::tokens;
  std::int64_t targets_per_sample = 1;  // tokens of a sequence, or one label
  std::string item_name;                // what throughput counts: "tokens" or "images"
};

[[nodiscard]] ModelTraits traits_of(const ModelConfig& model);

// `config` is resolved.
[[nodiscard]] Chain make_chain(const Config& config);

// The whole chain on one rank. The device must outlive the model.
[[nodiscard]] std::unique_ptr<Model> make_model(Device& device, const Config& config,
                                                std::int64_t micro_batch, bool training);

// The dtype that kernels compute in for a resolved `precision`; with fp8 all but its products.
[[nodiscard]] DType compute_dtype(const std::string& precision);

}  // namespace trireme
