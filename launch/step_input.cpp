// SPDX-License-Identifier: Apache-2.0
#include "launch/step_input.h"

#include "launch/options.h"
#include "launch/session.h"

namespace trireme {
namespace {

// Memory traffic of the update: reads the weight, its gradient and the moments, writes all but the
// gradient, in fp32.
double optimizer_bytes(const OptimizerConfig& optimizer) {
  const int moments = optimizer.name == "adamw" ? 2 : 1;
  return sizeof(float) * (2.0 + 1.0 + 2.0 * moments);
}

double sample_bytes(const ModelConfig& model, InputKind input) {
  if (input == InputKind::tokens) {
    constexpr std::int64_t most_of_16_bits = 65536;
    const double token = model.vocabulary <= most_of_16_bits ? 2 : 4;
    return token * static_cast<double>(model.context + 1);
  }
  return static_cast<double>(model.image_size * model.image_size * model.channels);
}

}  // namespace

plan::StepInput step_input(const Config& config) {
  const ModelTraits traits = traits_of(config.model);
  const bool cuda = config.device.type == "cuda";
  plan::StepInput input;
  input.build = build_options(config, /*tensor_rank=*/0, /*training=*/true);
  input.layers =
      summarize(make_chain(config), cuda ? DeviceType::cuda : DeviceType::cpu, input.build);
  input.mesh = mesh_shape(config.parallel);
  input.schedule = pipeline_shape(config, /*training=*/true);
  input.stages = plan_stages(input.layers, input.schedule, config.parallel.stage_layers);
  input.precision = *plan::precision_from(config.precision);
  input.zero = static_cast<int>(config.parallel.zero);
  input.bucket_elements = bucket_elements(config);
  input.separate_ties = keeps_ties_apart(config);
  input.overlapped_reducer = config.parallel.reducer == "overlapped";
  input.optimizer_bytes = optimizer_bytes(config.optimizer);
  input.items_per_sample = traits.targets_per_sample;
  input.rows_per_sample = traits.targets_per_sample;
  input.sample_bytes = sample_bytes(config.model, traits.input);
  return input;
}

}  // namespace trireme
