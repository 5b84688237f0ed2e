// SPDX-License-Identifier: Apache-2.0
#include "launch/observe/report/page_head.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "launch/observe/report/html.h"
#include "launch/observe/report/text_report.h"
#include "runtime/telemetry/console.h"

namespace trireme::report {
namespace {

// Problems, shown above all numbers; empty for a healthy run.
std::vector<std::string> failures_of(const RunData& run) {
  const MetricsHistory& all = run.metrics;
  std::vector<std::string> failures;
  if (runs::went_wrong(run.standing.status))
    failures.push_back(
        fmt::format("{}: {}", runs::name_of(run.standing.status), run.standing.text));
  if (all.non_finite.count > 0)
    failures.push_back(
        fmt::format("the loss or the gradient norm was NaN or infinite in {} steps, "
                    "first in step {}",
                    all.non_finite.count, all.non_finite.first.front()));
  if (all.failed_saves.count > 0)
    failures.push_back(fmt::format("{} checkpoints could not be written, first at step {}: {}",
                                   all.failed_saves.count, all.failed_saves.first.front().step,
                                   all.failed_saves.first.front().text));
  return failures;
}

// The validation loss, or else the training loss.
Headline loss_headline(const RunData& run) {
  const MetricsHistory& all = run.metrics;
  const auto text = [](double loss) {
    return loss < 1000 ? fmt::format("{:.4f}", loss) : format_quantity(loss);
  };
  if (!all.evaluations.empty()) {
    const Evaluation& last = all.evaluations.back();
    return {text(last.loss), fmt::format("validation loss at step {}", last.step)};
  }
  return {all.last_loss ? text(*all.last_loss) : "–",
          fmt::format("training loss at step {}", all.last_step)};
}

}  // namespace

std::string failures_html(std::span<const RunData> runs) {
  std::string text;
  for (const RunData& run : runs) {
    for (const std::string& failure : failures_of(run))
      text += fmt::format("<li>{}{}</li>\n",
                          runs.size() > 1 ? fmt::format("<b>{}</b> ", escaped(run.name)) : "",
                          escaped(failure));
  }
  if (text.empty()) return {};
  return "<div class=\"failure\"><strong>What went wrong</strong><ul>\n" + text + "</ul></div>\n";
}

std::string headline(const RunData& run) {
  if (run.metrics.steps == 0) return {};
  const Figures figures = figures_of(run);
  const RunSummary times = times_of(run);
  const double compute = seconds_of(times)[TimePart::compute];
  return headline_html({{loss_headline(run),
                         {format_quantity(figures.items_per_second),
                          fmt::format("{} per second", run.metrics.items)},
                         {fmt::format("{:.1f} %", percent(compute, times.wall_seconds)),
                          fmt::format("of {} are compute", format_duration(times.wall_seconds))}}});
}

// The best of several runs; NaN is never better. Validation losses are not compared with training
// losses, nor tokens with images.
std::string headline(std::span<const RunData> runs) {
  const RunData *best = nullptr, *fastest = nullptr;
  std::size_t well = 0;
  const bool validated = std::ranges::any_of(
      runs, [](const RunData& run) { return !run.metrics.evaluations.empty(); });
  const auto loss = [&](const RunData& run) {
    const MetricsHistory& all = run.metrics;
    if (!validated) return all.last_loss.value_or(NAN);
    return all.evaluations.empty() ? NAN : all.evaluations.back().loss;
  };
  const auto rate = [&](const RunData& run) {
    return run.metrics.items == runs.front().metrics.items ? figures_of(run).items_per_second : NAN;
  };
  for (const RunData& run : runs) {
    if (std::isfinite(loss(run)) && (best == nullptr || loss(run) < loss(*best))) best = &run;
    if (std::isfinite(rate(run)) && (fastest == nullptr || rate(run) > rate(*fastest)))
      fastest = &run;
    if (failures_of(run).empty()) ++well;
  }
  std::vector<Headline> numbers{
      {fmt::format("{} of {}", well, runs.size()), "runs without a failure"}};
  if (best != nullptr) {
    numbers.push_back(loss_headline(*best));
    numbers.back().meaning = fmt::format("least loss, {}: {}", numbers.back().meaning, best->name);
  }
  if (fastest != nullptr)
    numbers.push_back(
        {format_quantity(rate(*fastest)),
         fmt::format("{} per second, the most: {}", fastest->metrics.items, fastest->name)});
  return headline_html(numbers);
}

}  // namespace trireme::report
