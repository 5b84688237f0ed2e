// SPDX-License-Identifier: Apache-2.0
#include "launch/observe/report/text_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <set>
#include <span>

#include "runtime/base/process.h"
#include "runtime/telemetry/console.h"
#include "runtime/telemetry/metric_table.h"

namespace trireme::report {
namespace {

namespace fs = std::filesystem;

constexpr double unknown_figure = std::numeric_limits<double>::quiet_NaN();

// Mean over the last 5 % of the buckets that have the series.
double recent_mean(const Buckets& buckets, std::string_view name) {
  const std::size_t column = buckets.find(name);
  if (column == Buckets::none || buckets.all().empty()) return unknown_figure;
  const auto all = buckets.all();
  Cell sum;
  for (const Bucket& bucket : all.last(std::max<std::size_t>(all.size() / 20, 1))) {
    if (const Cell* const cell = bucket.cell(column)) sum.add(*cell);
  }
  return sum.count > 0 ? sum.mean() : unknown_figure;
}

double overall_mean(const Buckets& buckets, std::string_view name) {
  const std::size_t column = buckets.find(name);
  Cell sum;
  for (const Bucket& bucket : buckets.all()) {
    if (const Cell* const cell = bucket.cell(column)) sum.add(*cell);
  }
  return sum.count > 0 ? sum.mean() : unknown_figure;
}

std::string about(const RunData& run) {
  std::vector<std::string> parts;
  if (!run.family.empty()) parts.push_back(run.family);
  if (run.start.ranks > 0) {
    const std::set<std::string> hosts(run.hosts.begin(), run.hosts.end());
    parts.push_back(fmt::format(
        "{} rank{}{}", run.start.ranks, run.start.ranks == 1 ? "" : "s",
        hosts.empty()
            ? ""
            : fmt::format(" on {}", hosts.size() == 1 ? *hosts.begin()
                                                      : fmt::format("{} hosts", hosts.size()))));
  }
  const RunFacts& facts = run.facts;
  if (facts.ranks > 1)
    parts.push_back(
        fmt::format("data {}{} x {} {} x pipeline {}, ZeRO {}", facts.data / facts.context,
                    facts.context > 1 ? fmt::format(" x context {}", facts.context) : "",
                    inner_axis(facts.cuts_samples), facts.tensor, facts.pipeline, facts.zero));
  if (!run.start.version.empty())
    parts.push_back(fmt::format("{} ({})", run.start.version, run.start.revision));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string state_text(const RunData& run) {
  std::string text(runs::name_of(run.standing.status));
  if (!run.start.started.empty()) text += fmt::format("; last start {}", run.start.started);
  if (run.ranks.start_count > 1) text += fmt::format(", of {} starts", run.ranks.start_count);
  if (run.has_metrics && run.standing.status != runs::RunStatus::finished)
    text += fmt::format("; last line written {} ago", format_duration(run.file_age_seconds));
  return text;
}

// The command that continues an unfinished run.
std::string command_text(const RunData& run) {
  using enum runs::RunStatus;
  const runs::RunStatus state = run.standing.status;
  if (run.start.command.empty() || (state != stopped && state != failed && state != ended))
    return {};
  std::vector<std::string> words;
  std::ranges::transform(run.start.command, std::back_inserter(words), shell_word);
  words.front() = fs::path(run.start.command.front()).filename().string();
  return fmt::format(
      "{}{}{}",
      run.start.ranks > 1 ? fmt::format("launch/mpi_run.sh -np {} ", run.start.ranks) : "",
      fmt::join(words, " "), state == failed ? ", once the cause is fixed" : "");
}

std::string progress(const RunData& run, const Figures& figures) {
  const MetricsHistory& all = run.metrics;
  if (all.steps == 0) return {};
  std::string text = fmt::format("step {}", all.last_step);
  if (run.planned_steps > 0) {
    text += fmt::format(
        " of {} ({:.1f} %)", run.planned_steps,
        percent(static_cast<double>(all.last_step), static_cast<double>(run.planned_steps)));
  }
  if (all.items_seen) text += fmt::format(", {} {}", format_quantity(*all.items_seen), all.items);
  text += fmt::format(", running {}", format_duration(all.running_seconds));
  if (run.standing.status != runs::RunStatus::finished && figures.remaining_seconds > 0)
    text += fmt::format(", about {} left", format_duration(figures.remaining_seconds));
  return text;
}

std::string loss_text(const MetricsHistory& all) {
  if (!all.last_loss) return {};
  std::string text = fmt::format("{:.4f} at step {}", *all.last_loss, all.last_step);
  if (all.first_loss) text += fmt::format(", {:.4f} at first", *all.first_loss);
  if (all.lowest_loss)
    text += fmt::format(", lowest {:.4f} at step {}", *all.lowest_loss, all.lowest_loss_step);
  if (all.non_finite.count > 0)
    text += fmt::format("; NaN or infinite in {} steps, first step {}", all.non_finite.count,
                        all.non_finite.first.front());
  return text;
}

// Of the last evaluation; better ones before it are named too.
std::string measured_text(std::span<const Evaluation> evaluations) {
  std::string text;
  for (const Quality& quality : qualities) {
    const auto value_in = [&](const Evaluation& one) { return one.quality.*quality.value; };
    const Evaluation& last = evaluations.back();
    if (!value_in(last)) continue;
    text += ", " + quality_text(quality, *value_in(last));
    const Evaluation* best = &last;
    for (const Evaluation& one : evaluations) {
      if (value_in(one) && quality.is_better(*value_in(one), *value_in(*best))) best = &one;
    }
    if (best != &last)
      text += fmt::format(" (best {} at step {})", quality_number(quality, *value_in(*best)),
                          best->step);
  }
  return text;
}

std::string validation_text(const MetricsHistory& all) {
  if (all.evaluations.empty()) return {};
  const Evaluation& last = all.evaluations.back();
  // NaN compares as not less.
  const Evaluation* best = &last;
  for (const Evaluation& one : all.evaluations) {
    if (one.loss < best->loss || std::isnan(best->loss)) best = &one;
  }
  std::string text = fmt::format("{:.4f} at step {}", last.loss, last.step);
  text += measured_text(all.evaluations);
  return text + fmt::format(", best {:.4f} at step {}; {} evaluations", best->loss, best->step,
                            all.evaluation_count);
}

std::string rate_text(const RunData& run, const Figures& figures) {
  if (run.metrics.totals[TimePart::step] <= 0 || run.metrics.items.empty()) return {};
  return fmt::format("{} {}/s in its steps, {} lately; step {:.1f} ms, {:.1f} lately",
                     format_quantity(figures.items_per_second), run.metrics.items,
                     format_quantity(figures.recent_items_per_second), figures.step_ms,
                     figures.recent_step_ms);
}

std::string time_text(const RunSummary& summary, double core_wait_ms) {
  std::vector<std::string> parts;
  const Times seconds = seconds_of(summary);
  for (const TimeRow& row : told_times(time_use::of_run)) {
    if (!row.is(time_use::always) && seconds[row.part] <= 0) continue;
    parts.push_back(fmt::format("{} {:.1f} s ({:.1f} %)", row.name, seconds[row.part],
                                percent(seconds[row.part], summary.wall_seconds)));
  }
  std::string text = fmt::format("{}", fmt::join(parts, ", "));
  if (core_wait_ms > 0)
    text += fmt::format("; within them processes had no core for {:.1f} s", 1e-3 * core_wait_ms);
  return text;
}

std::string energy_text(const RunData& run) {
  const StepTotals& totals = run.metrics.totals;
  if (totals.joule_items <= 0 || run.metrics.items.empty()) return {};
  return fmt::format("{} J, {:.3g} J per {}", format_quantity(totals.joules),
                     totals.joules / static_cast<double>(totals.joule_items),
                     run.metrics.items.substr(0, run.metrics.items.size() - 1));
}

std::string compute_text(const RunData& run, const Figures& figures) {
  const double rate = run.figures.flops_per_item * figures.items_per_second;
  if (!(rate > 0) || run.start.ranks <= 0) return {};
  std::string text =
      fmt::format("{:.1f} GFLOP/s per rank of the model's own work", 1e-9 * rate / run.start.ranks);
  if (std::isfinite(figures.mfu))
    return text + fmt::format(", MFU {:.1f} % by parallel.hardware", 100 * figures.mfu);
  return text + "; MFU unavailable: parallel.hardware is not set or has no peak";
}

std::string memory_text(const ModelFigures& figures, std::uint64_t resident) {
  double planned = 0, measured = 0;
  bool known = false;
  for (const MemoryUse& use : figures.memory) {
    planned += static_cast<double>(use.planned);
    measured += static_cast<double>(use.measured.value_or(0));
    known = known || use.measured.has_value();
  }
  if (planned <= 0) return {};
  std::string text = fmt::format("buffers per rank: {} planned{}", bytes_text(planned),
                                 known ? fmt::format(", {} measured", bytes_text(measured)) : "");
  if (resident > 0)
    text += fmt::format("; resident at most {}", bytes_text(static_cast<double>(resident)));
  return text;
}

std::string goodput_text(const MetricsHistory& all, const Figures& figures) {
  if (!(figures.goodput > 0)) return {};
  std::string text =
      fmt::format("{:.1f} % of {}", 100 * figures.goodput, format_duration(all.whole_seconds()));
  if (all.pauses.count > 0)
    text += fmt::format("; {} pause{} (stops, starts) of {}", all.pauses.count,
                        all.pauses.count == 1 ? "" : "s", format_duration(all.paused_seconds));
  if (all.repeated_steps > 0)
    text += fmt::format("; {} steps done again, {}", all.repeated_steps,
                        format_duration(all.repeated_seconds));
  if (all.lost.steps > 0)
    text += fmt::format("; {} steps lost at restarts, {}", all.lost.steps,
                        format_duration(all.lost.seconds));
  return text;
}

std::string experts_text(const MetricsHistory& all) {
  if (all.loads.empty()) return {};
  const ExpertLoad& worst = worst_of(all.loads);
  return fmt::format(
      "at step {} the fullest of {} has {:.2f} times the mean load, {} of that layer have no "
      "token; "
      "highest {:.2f} at step {}",
      all.loads_step, worst.layer, worst.max_over_mean, worst.dead, all.highest_load,
      all.highest_load_step);
}

std::string checkpoints_text(const RunData& run) {
  std::string text;
  if (!run.checkpoints.empty()) {
    const runs::StoredCheckpoint& newest = run.checkpoints.back();
    text = fmt::format("{} kept, newest of step {} ({})", run.checkpoints.size(), newest.step,
                       bytes_text(runs::stored_bytes(newest)));
  }
  const auto& failed = run.metrics.failed_saves;
  if (failed.count > 0)
    text += fmt::format("{}{} could not be written, first at step {}: {}", text.empty() ? "" : "; ",
                        failed.count, failed.first.front().step, failed.first.front().text);
  return text;
}

}  // namespace

std::string bytes_text(double bytes) {
  constexpr std::array units = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < units.size(); ++unit)
    bytes /= 1024;
  return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : 1, units[unit]);
}

Figures figures_of(const RunData& run) {
  const MetricsHistory& all = run.metrics;
  const StepTotals& totals = all.totals;
  const double seconds = 1e-3 * totals[TimePart::step], count = static_cast<double>(totals.steps);
  Figures figures{.items_per_second = static_cast<double>(totals.items) / seconds,
                  .recent_items_per_second = recent_mean(all.buckets, all.items + "_per_s"),
                  .step_ms = totals[TimePart::step] / count,
                  .recent_step_ms = recent_mean(all.buckets, "step_ms"),
                  .mfu = overall_mean(all.buckets, "mfu")};
  Pace pace{.step = 1e-3 * figures.recent_step_ms};
  if (all.evaluation_count > 0)
    pace.evaluation = all.evaluation_seconds / static_cast<double>(all.evaluation_count);
  if (const StepTotals& known = run.ranks.fold.summary().totals; run.ranks.fold.steps() > 0)
    pace.checkpoint = checkpoint_seconds(known, run.ranks.fold.last_step(), run.facts);
  if (run.ranks.fold.reached().empty())
    figures.remaining_seconds = seconds_left(all.last_step, run.planned_steps, run.facts, pace);
  const double whole = all.whole_seconds();
  figures.goodput =
      whole > 0 ? std::max(seconds - all.repeated_seconds, 0.0) / whole : unknown_figure;
  return figures;
}

std::vector<Fact> facts_of(const RunData& run) {
  const MetricsHistory& all = run.metrics;
  const Figures figures = figures_of(run);
  std::vector<Fact> facts{{"setting", about(run)},
                          {"state", state_text(run)},
                          {"because", run.standing.text},
                          {"go on with", command_text(run)},
                          {"progress", progress(run, figures)},
                          {"loss", loss_text(all)},
                          {"validation", validation_text(all)},
                          {"throughput", rate_text(run, figures)}};
  facts.push_back({"experts", experts_text(all)});
  facts.push_back({"compute", compute_text(run, figures)});
  facts.push_back({"memory", memory_text(run.figures, times_of(run).peak_memory_bytes)});
  if (all.steps > 0) {
    // Otherwise the bottleneck analysis has it, with the ranks' times.
    if (run.ranks.fold.steps() == 0)
      facts.push_back({"time", time_text(summary_of(run), all.totals[TimePart::core_wait])});
    facts.push_back({"goodput", goodput_text(all, figures)});
    facts.push_back({"energy", energy_text(run)});
  }
  facts.push_back({"checkpoints", checkpoints_text(run)});
  const auto add_events = [&](const char* name, const char* what, const Few<Event>& events) {
    if (events.count == 0) return;
    const Event& first = events.first.front();
    facts.push_back({name, fmt::format("{}{}, first at step {}: {}", events.count, what, first.step,
                                       first.text)});
  };
  add_events("warnings", "", all.warnings);
  add_events("skipped", " batches", all.skipped);
  std::erase_if(facts, [](const Fact& fact) { return fact.text.empty(); });
  return facts;
}

std::string bottleneck_of(const RunData& run) {
  const RunFold& ranks = run.ranks.fold;
  if (ranks.steps() > 0) return end_of_run_text(times_of(run), ranks.facts());
  return run.metrics.steps > 0 ? bottleneck_text(summary_of(run), run.facts) : std::string();
}

Table loads_table(const MetricsHistory& all) {
  Table table({{"layer", Column::Kind::name}, {"max / mean"}, {"dead"}, {"entropy"}});
  for (const ExpertLoad& load : all.loads)
    table.add({load.layer, fmt::format("{:.2f}", load.max_over_mean), fmt::format("{}", load.dead),
               fmt::format("{:.3f}", load.entropy)});
  return table;
}

std::string text_report(const RunData& run) {
  std::string text = fmt::format("{:<12} {}\n", "run", run.directory);
  for (const Fact& fact : facts_of(run))
    text += fmt::format("{:<12} {}\n", fact.name, fact.text);
  if (const std::string found = bottleneck_of(run); !found.empty()) text += found + "\n";
  if (!run.metrics.loads.empty())
    text += fmt::format("load of experts at step {}:\n{}", run.metrics.loads_step,
                        loads_table(run.metrics).text());
  for (const std::string& remark : run.remarks)
    text += fmt::format("note: {}\n", remark);
  return text;
}

Table comparison_of(std::span<const RunData> runs) {
  using Kind = Column::Kind;
  const auto number = [](double value, int digits) {
    return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : std::string("–");
  };
  Table table({{"run", Kind::name},
               {"state", Kind::text},
               {"steps"},
               {"loss"},
               {"validation"},
               {"items/s"},
               {"step, ms"},
               {"MFU, %"},
               {"goodput, %"}});
  for (const RunData& run : runs) {
    const Figures figures = figures_of(run);
    const MetricsHistory& all = run.metrics;
    table.add({run.name, std::string(runs::name_of(run.standing.status)),
               fmt::format("{}", all.last_step), number(all.last_loss.value_or(unknown_figure), 4),
               number(all.evaluations.empty() ? unknown_figure : all.evaluations.back().loss, 4),
               number(figures.items_per_second, 0), number(figures.step_ms, 1),
               number(100 * figures.mfu, 1), number(100 * figures.goodput, 1)});
  }
  return table;
}

std::string metrics_text() {
  Table steps({{"name", Column::Kind::text},
               {"unit", Column::Kind::text},
               {"kind", Column::Kind::text},
               {"meaning", Column::Kind::text}});
  Table evaluations = steps, runs = steps;
  const auto add = [](Table& table, const auto& metrics) {
    for (const MetricInfo& metric : metrics)
      table.add({std::string(metric.name), std::string(metric.unit),
                 metric.kind == MetricKind::counter ? "counter" : "gauge",
                 std::string(metric.meaning)});
  };
  add(steps, step_metrics());
  add(evaluations, evaluation_metrics());
  add(runs, run_metrics());
  return "Of every step, in metrics.jsonl beside \"step\" and \"timestamp\"; items are tokens or "
         "images:\n" +
         steps.text() + "\nOf every evaluation:\n" + evaluations.text() +
         "\nOf the run, for Prometheus alone:\n" + runs.text();
}

}  // namespace trireme::report
