// SPDX-License-Identifier: Apache-2.0
#include "models/cosmoflow/cosmoflow.h"

#include <bit>

#include "models/cosmoflow/layers.h"
#include "models/heads/dense_head.h"
#include "runtime/config/rules/rules.h"

namespace trireme {

Chain cosmoflow_chain(const CosmoFlowOptions& options, const TrainConfig& train) {
  const ValueLossChoice loss = value_loss_choice(
      train, options.target_scale > 0 ? OutputTransform::tanh : OutputTransform::none,
      static_cast<float>(options.target_scale));
  Chain chain;
  for (std::int64_t i = 0; i < options.halvings; ++i) {
    const std::string name = fmt::format("convolutions.{}", i);
    chain.push_back(in_scope<CosmoFlowBlock>(name, name, options, i));
    chain.back().block = true;
  }
  chain.push_back(in_scope<DenseHead>(
      "", DenseHeadOptions{options.dense, options.dropout, options.leaky_slope, {}},
      HeadChoice{HeadKind::values, options.targets, loss}));
  return chain;
}

namespace {

using config::IntegerRange;
using config::NumberRange;

constexpr std::int64_t max_filters = 1 << 16;

#define COSMOFLOW_FIELD(name, ...) TRIREME_MODEL_FIELD(CosmoFlowOptions, name, __VA_ARGS__)

std::vector<config::Field> cosmoflow_fields() {
  return {
      COSMOFLOW_FIELD(size, IntegerRange{2, 4096}, "depth, height and width of the cubes"),
      COSMOFLOW_FIELD(channels, IntegerRange{1, 4096},
                      "channels of the input; of a table: its columns"),
      COSMOFLOW_FIELD(targets, targets_range, targets_text),
      COSMOFLOW_FIELD(filters, IntegerRange{1, 4096},
                      "channels of the first convolution or level; others have multiples"),
      COSMOFLOW_FIELD(halvings, IntegerRange{1, 12},
                      "convolutions, each followed by max pooling by 2"),
      COSMOFLOW_FIELD(dense, (IntegerRange{1, 65536, {0, 8}}),
                      "widths of the dense layers but the last"),
      COSMOFLOW_FIELD(dropout, (NumberRange{.low = 0, .high = 1, .high_is_open = true}),
                      "dropout probability")
          .changing(config::Effect::history),
      COSMOFLOW_FIELD(leaky_slope, (NumberRange{.low = 0, .high = 1}),
                      "slope of LeakyReLU below zero"),
      COSMOFLOW_FIELD(target_scale, (NumberRange{.low = 0, .high = 1e6}),
                      "predictions are this times tanh of the last layer; 0: the last layer's"),
  };
}

void check_cosmoflow(const config::Subject& subject) {
  if (!subject.config.data.path.empty())
    refuse(subject, "data.path", "packed shards hold no volumes; name HDF5 files by data.files");
  const auto& model = subject.config.model.as<CosmoFlowOptions>();
  const std::int64_t fits = std::bit_width(static_cast<std::uint64_t>(model.size)) - 1;
  if (model.halvings > fits) {
    refuse(subject, "model.halvings", "{} halvings of {} leave less than one; use {} or fewer",
           model.halvings, model.size, fits);
  }
  if (model.filters << (model.halvings - 1) > max_filters) {
    refuse(subject, "model.filters",
           "{} grow to {} after {} convolutions, more than {}; use {} or "
           "less",
           model.filters, model.filters << (model.halvings - 1), model.halvings, max_filters,
           max_filters >> (model.halvings - 1));
  }
}

}  // namespace

config::ModelFamily cosmoflow_family() {
  return {.name = cosmoflow_name,
          .input = config::Input::fields,
          .volumes = [](const ModelConfig&) { return true; },
          .fields = cosmoflow_fields,
          .check = check_cosmoflow,
          .limits = [](const Config& config) { return limits_of(cosmoflow_chain(config)); },
          .targets =
              [](const ModelConfig& model) {
                return TargetSpec{TargetKind::values, {model.as<CosmoFlowOptions>().targets}, 0};
              }};
}

Chain cosmoflow_chain(const Config& config) {
  return cosmoflow_chain(config.model.as<CosmoFlowOptions>(), config.train);
}

}  // namespace trireme
