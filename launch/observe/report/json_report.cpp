// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "launch/observe/report/runs_page.h"
#include "launch/observe/report/text_report.h"
#include "runtime/telemetry/environment.h"

namespace trireme::report {
namespace {

using ordered_json = nlohmann::ordered_json;

template <typename Value>
ordered_json or_null(const std::optional<Value>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

ordered_json shares_of_time(const RunData& run) {
  const RunSummary summary = times_of(run);
  ordered_json shares = ordered_json::object();
  const Times seconds = seconds_of(summary);
  for (const TimeRow& row : told_times(time_use::of_run))
    shares[std::string(row.name)] = seconds[row.part];
  return {{"wall_seconds", summary.wall_seconds}, {"seconds", shares}};
}

ordered_json describe(const RunData& run) {
  const MetricsHistory& all = run.metrics;
  const Figures figures = figures_of(run);
  ordered_json text{
      {"name", run.name},
      {"directory", run.directory},
      {"state", runs::name_of(run.standing.status)},
      {"because", run.standing.text},
      {"command", run.start.command},
      {"version", run.start.version},
      {"revision", run.start.revision},
      {"started", run.start.started},
      {"ranks", run.start.ranks},
      {"hosts", run.hosts},
      {"step", all.last_step},
      {"steps", run.planned_steps},
      {"items", all.items},
      {"items_seen", or_null(all.items_seen)},
      {"loss", or_null(all.last_loss)},
      {"lowest_loss", or_null(all.lowest_loss)},
      {"validation", nullptr},
      {"items_per_second", figures.items_per_second},
      {"recent_items_per_second", figures.recent_items_per_second},
      {"step_ms", figures.step_ms},
      {"mfu", figures.mfu},
      {"goodput", figures.goodput},
      {"running_seconds", all.running_seconds},
      {"paused_seconds", all.paused_seconds},
      {"lost_steps", all.lost.steps},
      {"lost_seconds", all.lost.seconds},
      {"remaining_seconds", figures.remaining_seconds},
      {"time", shares_of_time(run)},
      {"verdict", bottleneck_of(run)},
      {"not_finite", {{"count", all.non_finite.count}, {"first", all.non_finite.first}}},
      {"warnings", json_events(all.warnings)},
      {"skipped", json_events(all.skipped)},
      {"failed_saves", json_events(all.failed_saves)},
      {"notes", run.remarks}};
  if (!all.evaluations.empty()) {
    const Evaluation& last = all.evaluations.back();
    ordered_json& validation = text["validation"];
    validation = {
        {"step", last.step}, {"loss", last.loss}, {"accuracy", or_null(last.quality.accuracy)}};
    for (const Quality& quality : qualities)
      if (const auto value = last.quality.*quality.value)
        validation[std::string(quality.key)] = *value;
  }
  for (const ExpertLoad& load : all.loads)
    text["experts"][load.layer] = {
        {"max_over_mean", load.max_over_mean}, {"dead", load.dead}, {"entropy", load.entropy}};
  ordered_json settings = ordered_json::object();
  for (const auto& [key, value] : run.settings)
    settings[key] = value;
  text["settings"] = settings;
  return text;
}

}  // namespace

std::string json_report(std::span<const RunData> runs) {
  ordered_json described = ordered_json::array();
  for (const RunData& run : runs)
    described.push_back(describe(run));
  const ordered_json text{{"version", version_text()}, {"runs", described}};
  return text.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace trireme::report
