// SPDX-License-Identifier: Apache-2.0
#include "launch/job/snapshots.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace trireme {
namespace {

// After these steps, weights without gradient are searched, and again after the next step: early in
// training a weight may have none yet.
constexpr std::int64_t first_look = 20, look_every = 500;

bool looks_behind(std::int64_t done) {
  return done == first_look || done % look_every == 0;
}

bool comes(std::int64_t every, std::int64_t done) {
  return every > 0 && done % every == 0;
}

std::vector<std::string> trained_weights(const Session& session) {
  std::vector<std::string> names;
  for (const auto& [spec, stage] : session.placed_params())
    if (spec.kind == ParamKind::weight) names.push_back(spec.name);
  return names;
}

}  // namespace

Snapshots::Snapshots(Engine& engine, Reporter* reporter) : engine_(engine), reporter_(reporter) {
  Session& session = engine.session();
  TrainingParts& parts = engine.training();
  const TelemetryConfig& telemetry = session.config.telemetry;
  if (telemetry.histograms_every > 0 || telemetry.warning_minutes > 0)
    counts_.emplace(*session.device, session.mesh, session.model->params(),
                    trained_weights(session));
  if (telemetry.samples_every == 0) return;
  sampled_ = parts.validation ? &parts.validation->dataset() : engine.dataset();
  // Fails at the start if the model cannot produce the samples.
  if (sampled_ != nullptr) SamplePass(session, parts.state->engine.runner(), *sampled_);
}

void Snapshots::take(std::int64_t done) {
  const TelemetryConfig& telemetry = engine_.session().config.telemetry;
  const bool counts = comes(telemetry.histograms_every, done),
             samples = comes(telemetry.samples_every, done);
  const bool looks =
      telemetry.warning_minutes > 0 && (looks_behind(done) || looks_behind(done - 1));
  if (!counts && !samples && !looks) return;
  engine_.training().state->engine.settle();
  if (looks) look_for_dead(done);
  if (counts) {
    StepHistograms found{.step = done,
                         .tensors = counts_->histograms(*engine_.session().streams.compute),
                         .time = std::chrono::system_clock::now()};
    std::ranges::move(engine_.training().state->activations->take(),
                      std::back_inserter(found.tensors));
    if (reporter_ != nullptr) reporter_->sinks.histograms(found);
  }
  if (samples && sampled_ != nullptr) {
    StepEngine& steps = engine_.training().state->engine;
    ModelSamples found = SamplePass(engine_.session(), steps.runner(), *sampled_).run();
    found.step = done;
    found.time = std::chrono::system_clock::now();
    if (reporter_ != nullptr) reporter_->sinks.samples(found);
  }
}

// Reports a weight only after two steps in a row: one batch may not reach it.
void Snapshots::look_for_dead(std::int64_t done) {
  constexpr std::size_t most_named = 5;
  std::vector<std::string> dead = counts_->without_gradient(*engine_.session().streams.compute);
  std::vector<std::string> found;
  for (const std::string& name : dead) {
    const bool again = std::ranges::find(suspects_, name) != suspects_.end();
    if (again && std::ranges::find(told_, name) == told_.end()) found.push_back(name);
  }
  suspects_ = looks_behind(done) ? std::move(dead) : std::vector<std::string>{};
  if (looks_behind(done) || found.empty()) return;
  told_.insert(told_.end(), found.begin(), found.end());
  if (reporter_ == nullptr) return;
  const std::span named = std::span(found).first(std::min(found.size(), most_named));
  reporter_->tell({.step = done,
                   .kind = "dead_layer",
                   .text = fmt::format("the gradient of {} of the weights was exactly 0 in steps "
                                       "{} and {}: {}{}; they have no effect on the loss",
                                       found.size(), done - 1, done, fmt::join(named, ", "),
                                       found.size() > named.size() ? ", ..." : ""),
                   .time = std::chrono::system_clock::now()});
}

}  // namespace trireme
