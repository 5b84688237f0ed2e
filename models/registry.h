// SPDX-License-Identifier: Apache-2.0
// Makes a model from the config's `model` section: the only place that knows all families.
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

// The inputs and targets of a model, for data sets and reports.
struct ModelTraits {
  InputKind input = InputKind::tokens;
  TargetSpec targets{};
  std::int64_t rows_per_sample = 1;  // rows of a block's matmuls
  std::string item_name;             // the unit of throughput: "tokens" or "images"
  // Token models:
  bool generates = false;  // causal: can continue texts
  std::int64_t context = 0;
  std::int64_t vocabulary = 0;
  std::int64_t pad_token = 0;   // behind a labelled text
  bool pools_last = false;      // its last token that is not pad_token decides
  bool skips_padding = false;   // pad_token has no position
  std::int64_t mask_token = 0;  // of a masked language model, else 0
  double mask_probability = 0;
  // Image models: (image_size, image_width, channels) u8, or f32 from files read in place. With a
  // depth, models of volumes: (image_depth, image_size, image_width, channels) f32.
  std::int64_t image_depth = 0;
  std::int64_t image_size = 0;
  std::int64_t image_width = 0;
  std::int64_t channels = 0;
  std::int64_t classes = 0;

  // How many targets a sample has: each adds to the loss.
  [[nodiscard]] std::int64_t targets_per_sample() const { return targets.shape.count(); }
  // How many of the items whose throughput is reported.
  [[nodiscard]] std::int64_t items_per_sample() const {
    const bool of_tokens =
        targets.kind == TargetKind::tokens || targets.kind == TargetKind::token_classes;
    return of_tokens ? targets_per_sample() : 1;
  }
  // Whether samples are texts with a target of their own each, or one for each token.
  [[nodiscard]] bool labelled_text() const {
    return input == InputKind::tokens && targets.kind != TargetKind::tokens;
  }
};

struct Family {
  config::ModelFamily keys;
  ModelTraits (*traits)(const ModelConfig& model);  // without targets: keys knows them
  // `config` is resolved.
  Chain (*chain)(const Config& config);
  const hugging_face::Exchange* exchange = &hugging_face::no_exchange;
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

// The compute dtype of kernels for a resolved `precision`; with fp8, of all but the matmuls.
[[nodiscard]] DType compute_dtype(Precision precision);

}  // namespace trireme
