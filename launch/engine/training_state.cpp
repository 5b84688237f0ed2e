// SPDX-License-Identifier: Apache-2.0
#include "launch/engine/training_state.h"

#include "launch/engine/autotune.h"
#include "launch/engine/options.h"
#include "launch/engine/rank_meter.h"
#include "runtime/ops/update/optimizer_update.h"

namespace trireme {
namespace {

std::optional<WeightDigests> digests_of(Session& session) {
  const TelemetryConfig& config = session.config.telemetry;
  if (config.weight_digests == 0 && !config.tensor_digests) return std::nullopt;
  return std::optional<WeightDigests>(std::in_place, *session.device, session.model->params(),
                                      session.mesh, session.placed_params(),
                                      static_cast<int>(config.weight_digests));
}

std::optional<ActivationCounts> activations_of(const Session& session) {
  const std::int64_t every = session.config.telemetry.histograms_every;
  if (every == 0) return std::nullopt;
  // Computed on one rank that holds all rows of everything that tensor ranks split.
  BuildOptions alone = session.build_options(/*training=*/true);
  alone.tensor = {};
  alone.experts = {};
  alone.sums.sequence = false;
  const auto whole = summarize(session.what.chain, session.device->type(), alone);
  const auto elements = [](const Shape& shape) { return shape.rank() > 0 ? shape.count() : 0; };
  std::vector<ActivationCounts::Layer> layers;
  for (std::size_t i = 0; i < whole.size(); ++i)
    layers.push_back({.name = whole[i].name,
                      .whole = elements(whole[i].output),
                      .held = elements(session.layers[i].output)});
  return std::optional<ActivationCounts>(std::in_place, *session.device, session.mesh,
                                         std::move(layers), every);
}

}  // namespace

AverageWeights::AverageWeights(Session& session, double decay)
    : session_(session), decay_(static_cast<float>(decay)) {
  if (decay == 0) return;
  const ParamStore& params = session.model->params();
  buffer_ = Buffer(*session.device,
                   static_cast<std::size_t>(params.layout().owned_elements()) * sizeof(float),
                   MemoryKind::device);
  for (const Bucket& bucket : params.layout().buckets()) {
    const Tensor masters = params.masters().owned(bucket);
    session.device->copy(*session.streams.compute, owned(bucket).data, masters.data,
                         masters.bytes());
  }
}

void AverageWeights::updated(std::int64_t /*step*/, Stream& compute, Stream& /*comm*/) {
  const ParamStore& params = session_.model->params();
  // Averages are contiguous, and so are most masters: one launch for adjacent ones.
  Tensor average, masters;
  for (const Bucket& bucket : params.layout().buckets()) {
    if (bucket.kind == ParamKind::frozen) continue;  // not even rounded
    const Tensor next = params.masters().owned(bucket);
    if (!masters.empty() && masters.data + masters.bytes() == next.data) {
      const Shape both{masters.count() + next.count()};
      masters.shape = average.shape = both;
      continue;
    }
    if (!masters.empty()) ops::exponential_average(compute, average, masters, decay_);
    average = owned(bucket);
    masters = next;
  }
  if (!masters.empty()) ops::exponential_average(compute, average, masters, decay_);
}

TrainingState::TrainingState(Session& session, StepOptions options)
    : average(session, session.config.train.ema_decay),
      digests(digests_of(session)),
      activations(activations_of(session)),
      engine(*session.device, *session.model, session.mesh, session.streams, &session.tensor,
             with_meters(session, std::move(options)), session.experts, session.context_group()),
      session_(session) {
  if (session.config.train.divergence_check_every > 0)
    replicas.emplace(*session.device, session.model->params(), session.mesh, session.streams);
  if (session.config.telemetry.health_minutes > 0) {
    self_test.emplace(*session.device, session.mesh, session.streams,
                      compute_dtype(session.config.precision));
  }
}

StepOptions TrainingState::with_meters(Session& session, StepOptions options) {
  const Config& config = session.config;
  const ParamStore& params = session.model->params();
  for (const PlacedParam& placed : session.placed_params())
    options.chain.push_back(placed.spec);
  const auto chunks = session.stages.chunks(session.pipeline, session.mesh.here().pipeline, true);
  for (const ChunkSpan& chunk : chunks)
    options.observers.first_layers.push_back(chunk.first);
  if (activations) options.observers.observers.push_back(&*activations);
  if (!session.dry && config.device.autotune != "off") {
    options.rehearsed = [&session](Stream& stream) {
      const bool exact = session.config.reproducibility != Reproducibility::fast;
      tune_gemms(*session.world, stream, session.config.device.autotune,
                 exact ? Unmeasured::error : Unmeasured::suggestion);
    };
  }
  if (config.train.noise_scale_every > 0) {
    noise.emplace(*session.device, session.mesh, params, session.streams,
                  NoiseMeterOptions{.every = config.train.noise_scale_every,
                                    .samples = config.train.micro_batch});
    options.meters.push_back(&*noise);
    options.gradients.transforms.insert(options.gradients.transforms.begin(), &*noise);
  }
  if (config.telemetry.weight_digests > 0) options.meters.push_back(&*digests);
  if (average.enabled()) options.meters.push_back(&average);
  if (config.train.log_every > 0)
    options.meters.push_back(&loads.emplace(*session.device, session.mesh, params, options.chain,
                                            config.train.log_every, config.train.steps));
  if (StepMeter* const planted = planted_meter()) options.meters.push_back(planted);
  return options;
}

CheckpointValues TrainingState::checkpoint_values() const {
  const Optimizer& optimizer = engine.optimizer();
  CheckpointValues values{.params = session_.model->params(),
                          .first = optimizer.first_moments(),
                          .second = optimizer.second_moments()};
  if (average.enabled()) values.average = average.values();
  if (const LossScaler* const scaler = engine.loss_scaler())
    values.scalars.emplace_back("loss_scale", scaler->state());
  if (const Tensor factored = optimizer.factored_moments(); !factored.empty())
    values.scalars.emplace_back("factored_moments", factored);
  values.scalars.emplace_back("loss_guard", engine.loss_guard().state());
  if (noise) {
    values.scalars.emplace_back("noise_scale", noise->state());
    values.measured.emplace_back("noise_scale");
  }
  return values;
}

}  // namespace trireme
