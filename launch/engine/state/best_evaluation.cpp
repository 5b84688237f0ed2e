// SPDX-License-Identifier: Apache-2.0
#include "launch/engine/state/best_evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/base/json.h"
#include "runtime/checkpoint/directory.h"
#include "runtime/checkpoint/files/names.h"
#include "runtime/config/stop_target.h"
#include "runtime/telemetry/run_directory.h"

namespace trireme {
namespace {

using Json = nlohmann::json;

bool is_better(std::string_view metric, double one, double other) {
  const auto* const found = std::ranges::find(qualities, metric, &Quality::key);
  return found == qualities.end() ? one < other : found->is_better(one, other);
}

Json stored_in(const Manifest& manifest) {
  return parse_json<Json>(parse_json<Json>(manifest.state).value("best", std::string("{}")));
}

}  // namespace

bool BestEvaluation::add(std::optional<double> now, std::int64_t done) {
  const bool better = now && *now == *now && (!value || is_better(metric, *now, *value));
  since = better ? 0 : since + 1;
  if (!better) return false;
  value = now;
  step = done;
  return true;
}

std::string BestEvaluation::describe() const {
  return fmt::format("{} {:.6g} after step {}", metric, value.value_or(0), step);
}

std::optional<double> metric_of(const TargetSpec& targets, const EvaluationResult& result,
                                std::string_view metric) {
  if (result.targets == 0) return {};
  if (metric == loss_metric) return result.loss;
  const auto* const found = std::ranges::find(qualities, metric, &Quality::key);
  if (found == qualities.end()) return {};
  return qualities_of(targets, result).*found->value;
}

std::string stored_text(const BestEvaluation& best) {
  Json text = {{"metric", best.metric}, {"step", best.step}, {"since", best.since}};
  if (best.value) text["value"] = *best.value;
  return text.dump();
}

BestEvaluation best_in(const Manifest& manifest, const std::string& metric) {
  BestEvaluation best{.metric = metric};
  const Json stored = stored_in(manifest);
  if (stored.value("metric", "") != metric) return best;
  if (stored.contains("value")) best.value = stored["value"].get<double>();
  best.step = stored.value("step", std::int64_t{0});
  best.since = stored.value("since", std::int64_t{0});
  return best;
}

std::string best_checkpoint(const std::string& run) {
  const std::string directory = RunDirectory::checkpoints_in(run);
  const auto all = list_checkpoints(directory);
  if (!all.empty()) {
    const Manifest newest = read_manifest(all.back().path + "/" + std::string(manifest_name));
    const std::int64_t step = stored_in(newest).value("step", std::int64_t{0});
    const auto best = std::ranges::find(all, step, &StepDirectory::step);
    if (step > 0 && best != all.end()) return best->path;
  }
  fail(ExitCode::config,
       "--best: {} has no best checkpoint; runs keep one with checkpoint.keep_best: METRIC", run);
}

}  // namespace trireme
