// SPDX-License-Identifier: Apache-2.0
#include "launch/engine/state/best_evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/base/json.h"
#include "runtime/base/line_reader.h"
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

// Those of metrics.jsonl after `step`, whose checkpoints may be gone.
void add_evaluations(BestEvaluation& best, const std::string& run, std::int64_t step) {
  const std::string path = run + "/metrics.jsonl";
  if (best.metric.empty() || !std::filesystem::is_regular_file(path)) return;
  const std::string key(best.metric == loss_metric ? "validation_loss" : best.metric);
  LineReader lines(path);
  while (const auto text = lines.next()) {
    const Json line = json_or_discarded(*text);
    if (!line.is_object() || !line.contains("validation_loss") || !line.contains(key)) continue;
    const auto done = line.value("step", std::int64_t{0});
    if (done > step && line[key].is_number()) best.add(line[key].get<double>(), done);
  }
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
    BestEvaluation best = best_in(newest, stored_in(newest).value("metric", ""));
    add_evaluations(best, run, all.back().step);
    const auto found = std::ranges::find(all, best.step, &StepDirectory::step);
    if (best.step > 0 && found != all.end()) return found->path;
    if (best.step > 0)
      fail(ExitCode::checkpoint,
           "--best: {}: the best evaluation has {}, but its checkpoint {}/{} is missing; restore "
           "it, or give another checkpoint, such as {}, without --best",
           run, best.describe(), directory, step_directory_name(best.step), all.back().path);
  }
  fail(ExitCode::config,
       "--best: {} has no best checkpoint; runs keep one with checkpoint.keep_best: METRIC", run);
}

}  // namespace trireme
