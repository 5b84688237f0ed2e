// SPDX-License-Identifier: Apache-2.0
#include "launch/plan/step_plan.h"

#include "launch/engine/options.h"
#include "launch/engine/session.h"
#include "runtime/config/batch_slices.h"

namespace trireme {
namespace {

// On a CPU without counts: bytes that the optimizer moves per parameter of its slice in fp32. It
// reads weight, gradient and state, and writes weight and state.
double optimizer_bytes(const OptimizerConfig& config) {
  constexpr int weight_and_gradient = 3;
  return static_cast<double>(weight_and_gradient + 2 * config.moments()) * sizeof(float);
}

// In a shard, or in files read in place: float32 without compression.
double stored_sample_bytes(const ModelTraits& traits, bool in_place) {
  if (traits.input == InputKind::images) {
    return static_cast<double>(traits.image_size * traits.image_width * traits.channels *
                               (in_place ? 4 : 1));
  }
  constexpr std::int64_t ids_in_two_bytes = 65536;
  return static_cast<double>(traits.context * (traits.vocabulary <= ids_in_two_bytes ? 2 : 4));
}

}  // namespace

const StepPlanner::Layers& StepPlanner::layers(const Config& config) {
  const BuildOptions build = build_options(config, /*tensor_rank=*/0, /*training=*/true);
  const Key key{config.parallel.tensor, config.parallel.sequence, config.train.recompute,
                config.train.micro_batch, build.split_backward};
  const auto [found, fresh] = known_.try_emplace(key);
  if (fresh) {
    found->second.declared = summarize(make_chain(config), device_type(config), build);
    if (counts_work_ && device_type(config) == DeviceType::cuda)
      found->second.counted = count_work(config);
  }
  return found->second;
}

plan::StepInput StepPlanner::input(const Config& config) {
  const ModelTraits traits = traits_of(config.model);
  TRIREME_EXPECTS(config.precision != Precision::automatic, "precision is not resolved");
  const Layers& known = layers(config);
  const bool counted = !known.counted.layers.empty();
  plan::StepInput input{.layers = known.declared,
                        .work = known.counted.layers,
                        .build = build_options(config, /*tensor_rank=*/0, /*training=*/true),
                        .mesh = mesh_shape(config.parallel),
                        .schedule = pipeline_shape(config, /*training=*/true),
                        .global_micro_batches = batch_slices(config).micro_batches(),
                        .stages = {},
                        .precision = config.precision,
                        .zero = static_cast<int>(config.parallel.zero),
                        .bucket_elements = bucket_elements(config),
                        .separate_ties = separates_ties(config),
                        .overlapped_reducer = config.parallel.reducer == ReducerMode::overlapped,
                        .optimizer_bytes = counted ? known.counted.optimizer_bytes
                                                   : optimizer_bytes(config.optimizer),
                        .items_per_sample = traits.targets_per_sample,
                        .rows_per_sample = traits.rows_per_sample,
                        .sample_bytes = stored_sample_bytes(traits, config.data.float_samples())};
  input.engine.gradient_bytes = static_cast<double>(size_of(reduced_dtype(config)));
  input.engine.owners_sum_gradients =
      reduced_dtype(config) != DType::f32 && device_type(config) == DeviceType::cuda;
  input.stages = plan_stages(input.layers, input.schedule, config.parallel.stage_layers);
  return input;
}

}  // namespace trireme
