// SPDX-License-Identifier: Apache-2.0
// From the config's `model` section to a model: the one place that knows all families.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "models/transformer/exchange.h"
#include "runtime/config/config.h"
#include "runtime/config/key_table.h"
#include "runtime/nn/model.h"

namespace trireme {

using InputKind = config::Input;

// What a model eats, for data sets and reports.
struct ModelTraits {
  InputKind input = InputKind::tokens;
  std::int64_t targets_per_sample = 1;  // tokens of a sequence, or one label
  std::int64_t rows_per_sample = 1;     // that matmuls of blocks see
  std::string item_name;                // what throughput counts: "tokens" or "images"
  // Of tokens.
  bool generates = false;  // each position knows only those before it: it can continue texts
  std::int64_t context = 0;
  std::int64_t vocabulary = 0;
  std::int64_t mask_token = 0;  // of a model that tells hidden tokens, else 0
  double mask_share = 0;
  // Of images: (image_size, image_width, channels) u8, or f32 from files that are read in place.
  std::int64_t image_size = 0;
  std::int64_t image_width = 0;
  std::int64_t channels = 0;
  std::int64_t classes = 0;
};

struct Family {
  config::ModelFamily keys;
  ModelTraits (*traits)(const ModelConfig& model);
  // `config` is resolved.
  Chain (*chain)(const Config& config);
  const hugging_face::Exchange* exchange = nullptr;  // never null
};

// The first is the default of model.family.
[[nodiscard]] std::span<const Family> families();

[[nodiscard]] const Family& family_of(const ModelConfig& model);
[[nodiscard]] ModelTraits traits_of(const ModelConfig& model);

// `config` is resolved.
[[nodiscard]] Chain make_chain(const Config& config);

// The whole chain on one rank. The device must outlive the model.
[[nodiscard]] std::unique_ptr<Model> make_model(Device& device, const Config& config,
                                                std::int64_t micro_batch, bool training);

// The dtype that kernels compute in for a resolved `precision`; with fp8 all but its matmuls.
[[nodiscard]] DType compute_dtype(Precision precision);

}  // namespace trireme
