// SPDX-License-Identifier: Apache-2.0
#include "launch/study/scale/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "launch/observe/report/table.h"
#include "launch/study/study_directory.h"
#include "runtime/telemetry/environment.h"

namespace trireme::scale {
namespace {

using ordered_json = nlohmann::ordered_json;

ordered_json describe(const Spread& spread) {
  return {{"median", spread.median}, {"least", spread.min}, {"most", spread.max}};
}

void add_work(ordered_json& text, const Row& row, const ModelTraits& traits) {
  const Utilisation use = utilisation_of(row);
  text["flops_per_second_and_rank"] = {
      {"six_n", use.six_n}, {"model", use.model}, {"hardware", use.hardware}};
  if (use.mfu) text["mfu"] = *use.mfu;
  if (use.hfu) text["hfu"] = *use.hfu;
  if (row.joules_per_sample)
    text["joules_per_" + one_item(traits)] =
        *row.joules_per_sample / static_cast<double>(traits.items_per_sample());
  if (row.point.work.predicted) text["predicted_seconds"] = *row.point.work.predicted;
}

ordered_json describe(const Extrapolation& all) {
  ordered_json held = ordered_json::array(), predictions = ordered_json::array();
  for (const auto& [point, error] : all.held_out)
    held.push_back({{"ranks", point.ranks()}, {"layout", point.layout()}, {"error", error}});
  for (const Prediction& one : all.predictions)
    predictions.push_back({{"ranks", one.point.ranks()},
                           {"layout", one.point.layout()},
                           {"global_batch", one.point.global_batch},
                           {"step_seconds", one.seconds},
                           {"efficiency", one.efficiency}});
  return {{"mode", name_of(all.mode)},
          {"correction", all.correction},
          {"held_out", held},
          {"predictions", predictions}};
}

ordered_json describe(const Row& row, const ModelTraits& traits) {
  ordered_json runs = ordered_json::array();
  for (const auto& run : row.runs)
    runs.push_back(describe_run(run, row.point));
  const RunPlace& place = row.place;
  ordered_json text{{"mode", name_of(row.point.mode)},
                    {"ranks", row.point.ranks()},
                    {"layout", row.point.layout()},
                    {"data", row.point.mesh.sample_ranks()},
                    {"context", row.point.mesh.context},
                    {"tensor", row.point.axes().tensor()},
                    {"spatial", row.point.spatial},
                    {"pipeline", row.point.mesh.pipeline},
                    {"global_batch", row.point.global_batch},
                    {"settings", row.point.settings},
                    {"good_runs", row.good},
                    {"runs", runs}};
  if (!place.hosts.empty()) {
    text["hosts"] = place.hosts;
    text["ranks_per_host"] = place.ranks_per_host;
    text["cores_per_host"] = place.cores;
    text["shares_cores"] = place.shares_cores();
  }
  if (row.good == 0) return text;
  text["samples_per_second"] = describe(row.samples_per_second);
  text[traits.item_name + "_per_second"] =
      row.samples_per_second.median * static_cast<double>(traits.items_per_sample());
  // For a fixed loss the times are those until it is reached.
  text["step_seconds"] = row.parts[TimePart::period];
  if (row.point.mode == Mode::fixed_loss) {
    text["steps_to_loss"] = row.steps;
    text["seconds_to_loss"] = row.parts[TimePart::period];
  }
  if (row.interval) text["samples_per_second_interval"] = {row.interval->low, row.interval->high};
  add_work(text, row, traits);
  text["slowest_rank"] = row.slowest_rank;
  if (!row.loss) return text;
  text["efficiency"] = describe(row.loss->efficiency);
  if (row.loss->interval)
    text["efficiency_interval"] = {row.loss->interval->low, row.loss->interval->high};
  text["ideal_seconds"] = row.loss->ideal;
  text["gap_seconds"] = row.loss->gap;
  for (std::size_t i = 0; i < loss_count; ++i) {
    const std::string name(loss_names[i]);
    text["loss_seconds"][name] = row.loss->parts[i];
    text["loss_shares"][name] = row.loss->parts[i] / row.parts[TimePart::period];
  }
  return text;
}

void add_once(std::vector<std::string>& to, const std::string& text) {
  if (!text.empty() && std::ranges::find(to, text) == to.end()) to.push_back(text);
}

std::string name_of(const Point& point) {
  return fmt::format("{} scaling, {} ranks as {}", name_of(point.mode), point.ranks(),
                     point.layout());
}

}  // namespace

std::string one_item(const ModelTraits& traits) {
  return traits.item_name.substr(0, traits.item_name.size() - 1);
}

StudyPlace place_of(std::span<const Row> rows) {
  StudyPlace all;
  for (const Row& row : rows) {
    for (const auto& run : row.runs) {
      if (!run || run->place.hosts.empty()) continue;
      const RunPlace& place = run->place;
      for (const std::string& host : place.hosts)
        add_once(all.hosts, host);
      add_once(all.cpus, place.cpu);
      all.cores = all.cores == 0 ? place.cores : std::min(all.cores, place.cores);
      all.device = place.device;
      if (all.first.empty() || place.started < all.first) all.first = place.started;
      all.last = std::max(all.last, place.started);
    }
  }
  return all;
}

std::string_view interval_note(const Study& study) {
  return study.options.repeats > 1
             ? "in brackets: 95 % intervals of the mean of the runs (Student's t); an efficiency "
               "is against the base's run of the same repeat"
             : "one run per point, so no intervals (see --repeats)";
}

const Row* largest_of(std::span<const Row> rows, Mode mode) {
  const Row *base = nullptr, *largest = nullptr;
  for (const Row& row : rows) {
    if (row.point.mode != mode) continue;
    if (base == nullptr) {
      base = &row;
      continue;
    }
    if (!row.loss) continue;
    const auto size = [](const Row& one) {
      return std::pair(one.point.ranks(), one.loss->efficiency.median);
    };
    if (largest == nullptr || size(row) > size(*largest)) largest = &row;
  }
  return largest;
}

// Why the efficiency of `row` is unsure: too few runs, or too short ones; else empty.
std::string doubt_of(const Study& study, std::span<const Row> rows, const Row& row) {
  constexpr double enough_seconds = 1;
  const Row& base =
      *std::ranges::find(rows, row.point.mode, [](const Row& one) { return one.point.mode; });
  const StudyOptions& options = study.options;
  const auto steps =
      row.point.mode == Mode::fixed_loss ? 1 : static_cast<double>(options.steps - options.warmup);
  const double seconds =
      steps * std::min(row.parts[TimePart::period], base.parts[TimePart::period]);
  std::string doubt;
  if (std::min(row.good, base.good) < 2) doubt = "a point has one run (give --repeats 3)";
  if (seconds < enough_seconds)
    doubt += fmt::format(
        "{}a run is measured for {:.2g} s (give --steps {:.0f})", doubt.empty() ? "" : ", and ",
        seconds,
        static_cast<double>(options.warmup) + std::ceil(2 * steps * enough_seconds / seconds));
  return doubt.empty() ? doubt : "; this is unsure: " + doubt;
}

std::vector<std::string> bottlenecks_on(const Study& study, std::span<const Row> rows) {
  std::vector<std::string> bottlenecks;
  for (const Mode mode : {Mode::weak, Mode::strong, Mode::fixed_loss}) {
    const Row* const row = largest_of(rows, mode);
    if (row == nullptr) continue;
    const Row::Loss& loss = *row->loss;
    const auto most = std::ranges::max_element(loss.parts);
    std::string text =
        fmt::format("{} scaling is {:.1f} % efficient on {} ranks as {}", name_of(mode),
                    100 * loss.efficiency.median, row->point.ranks(), row->point.layout());
    if (loss.interval && loss.interval->low < 1 && loss.interval->high > 1)
      text += ", but runs vary by as much, so this shows no loss";
    else if (loss.gap > 0)
      text += fmt::format(", and loses most by {} ({:.1f} % of a step)",
                          loss_titles[static_cast<std::size_t>(most - loss.parts.begin())],
                          100 * *most / row->parts[TimePart::period]);
    bottlenecks.push_back(text + doubt_of(study, rows, *row));
  }
  return bottlenecks;
}

std::vector<std::string> remarks_on(std::span<const Row> rows) {
  constexpr double notable_waits = 0.05, above = 1.02;
  std::vector<std::string> remarks;
  bool waited = false;
  for (const Row& row : rows) {
    const double share =
        row.good > 0 ? row.parts[TimePart::core_wait] / row.parts[TimePart::period] : 0.0;
    const std::string name = name_of(row.point);
    if (share >= notable_waits) {
      waited = true;
      remarks.push_back(
          fmt::format("{}: threads had no core for {:.0f} % of the step", name, 100 * share));
    }
    if (row.loss && row.loss->efficiency.median > above) {
      remarks.push_back(
          fmt::format("{}: {:.1f} % is more than ranks can gain, unless their data now fits into "
                      "caches; check whether the base was disturbed",
                      name, 100 * row.loss->efficiency.median));
    }
  }
  if (waited)
    remarks.push_back(
        "threads waited for cores because other processes or ranks used them; measure again on "
        "cores of your own");
  return remarks;
}

std::string describe_place(const Study& study, std::span<const Row> rows) {
  const StudyPlace place = place_of(rows);
  if (place.hosts.empty()) return "no run has recorded its hosts";
  return fmt::format(
      "{} ({}; {} cores{}), {} ranks started by {}, {}", fmt::join(place.hosts, ", "),
      fmt::join(place.cpus, ", "), place.cores, place.hosts.size() > 1 ? " each" : "", place.device,
      study.launcher.empty() ? "mpirun" : study.launcher,
      place.first == place.last ? place.first : fmt::format("{} to {}", place.first, place.last));
}

ordered_json describe_run(const std::optional<RunResult>& run, const Point& point) {
  if (!run) return {{"state", "not run"}};
  if (run->code != 0) return {{"state", "failed"}, {"code", run->code}, {"error", run->error}};
  ordered_json text{
      {"state", "done"},
      {"samples_per_second",
       static_cast<double>(point.global_batch) *
           static_cast<double>(std::max<std::int64_t>(run->steps_to_loss, 1)) /
           run->parts[TimePart::period]},
      {run->steps_to_loss > 0 ? "seconds_to_loss" : "step_seconds", run->parts[TimePart::period]},
      {"slowest_rank", run->slowest_rank},
      {"started", run->place.started},
      {"turn", run->turn},
      {"certificate", run->certificate},
      {"command", run->command_line}};
  using enum TimePart;
  for (const TimePart part : {compute, exposed_comm, bubble, data_wait, straggler, core_wait})
    text[fmt::format("{}_seconds", row_of(part).stem())] = run->parts[part];
  return text;
}

ordered_json describe(std::span<const Row> rows, const ModelTraits& traits) {
  ordered_json points = ordered_json::array();
  for (const Row& row : rows)
    points.push_back(describe(row, traits));
  return points;
}

std::string csv_report(const Study& study, std::span<const Row> rows) {
  std::string columns = fmt::format(
      "mode ranks layout data tensor pipeline global_batch good_runs runs=runs/# "
      "samples_per_second=samples_per_second/median "
      "samples_per_second_least=samples_per_second/least "
      "samples_per_second_most=samples_per_second/most {}_per_second step_seconds "
      "efficiency=efficiency/median efficiency_least=efficiency/least "
      "efficiency_most=efficiency/most ideal_seconds gap_seconds ",
      study.traits.item_name);
  for (const std::string_view name : loss_names)
    columns += fmt::format("{0}_seconds=loss_seconds/{0} ", name);
  columns += fmt::format(
      "hosts=hosts/# ranks_per_host cores_per_host shares_cores "
      "samples_per_second_low=samples_per_second_interval/0 "
      "samples_per_second_high=samples_per_second_interval/1 "
      "efficiency_low=efficiency_interval/0 efficiency_high=efficiency_interval/1 "
      "six_n_flops_per_rank=flops_per_second_and_rank/six_n "
      "model_flops_per_rank=flops_per_second_and_rank/model "
      "hardware_flops_per_rank=flops_per_second_and_rank/hardware mfu hfu joules_per_{} "
      "steps_to_loss",
      one_item(study.traits));
  return report::table_of(describe(rows, study.traits), report::keys_as_columns(columns)).csv();
}

ordered_json json_report(const Study& study, std::span<const Row> rows) {
  ordered_json extrapolations = ordered_json::array();
  for (const Extrapolation& one : extrapolate(study, rows))
    extrapolations.push_back(describe(one));
  const StudyPlace place = place_of(rows);
  return {{"version", version_text()},
          {"config", study.options.config},
          {"items", study.traits.item_name},
          {"hosts", place.hosts},
          {"cpus", place.cpus},
          {"cores_per_host", place.cores},
          {"device", place.device},
          {"launcher", study.launcher},
          {"first_run_started", place.first},
          {"last_run_started", place.last},
          {"settings", studies::settings_json(study.identity)},
          {"order", study.options.order},
          {"hardware", study.hardware},
          {"points", describe(rows, study.traits)},
          {"extrapolations", extrapolations}};
}

std::string text_report(const Study& study, std::span<const Row> rows) {
  using report::number, report::words;
  std::vector<report::Column> columns = {
      words("mode", "/mode"),
      number("ranks", "/ranks"),
      words("", "/shares_cores", "*"),
      words("layout", "/layout"),
      number(study.traits.item_name + "/s", "/" + study.traits.item_name + "_per_second", "{:.0f}"),
      number("efficiency", "/efficiency/median", "{:.1f} %", 100),
      words("", "/efficiency_interval", "{:.1f}", 100)};
  constexpr std::array<const char*, loss_count> titles = {"comm",      "bubble",     "data",
                                                          "straggler", "contention", "compute"};
  for (std::size_t i = 0; i < loss_count; ++i)
    columns.push_back(
        number(titles[i], fmt::format("/loss_shares/{}", loss_names[i]), "{:.1f}", 100));
  std::string text = report::table_of(describe(rows, study.traits), columns).text();
  for (const Row& row : rows)
    if (row.good == 0) text += fmt::format("{}: no run succeeded\n", name_of(row.point));
  for (const Row& row : rows)
    if (row.good > 0 && row.point.mode == Mode::fixed_loss)
      text += fmt::format("{} ranks as {}: {:.1f} steps, {:.2f} s to a loss of {}\n",
                          row.point.ranks(), row.point.layout(), row.steps,
                          row.parts[TimePart::period], study.options.target_loss);
  text += "efficiency, and what it lacks to 100 %, in % of the measured step; below 0: a gain\n";
  text += fmt::format("{}\n", interval_note(study));
  if (std::ranges::any_of(rows, [](const Row& row) { return row.place.shares_cores(); })) {
    text += fmt::format("* {}\n", shared_cores_note);
  }
  for (const std::string& bottleneck : bottlenecks_on(study, rows))
    text += "bottleneck: " + bottleneck + "\n";
  for (const std::string& remark : remarks_on(rows))
    text += "note: " + remark + "\n";
  return text + describe_place(study, rows) + "\n";
}

std::string latex_report(const Study& study, std::span<const Row> rows) {
  using report::number, report::words;
  const auto items = static_cast<double>(study.traits.items_per_sample());
  const std::string item = one_item(study.traits);
  const std::vector<report::Column> columns = {
      words("scaling", "/mode"),
      number("ranks", "/ranks"),
      words("layout", "/layout"),
      number("batch", "/global_batch"),
      number(study.traits.item_name + "/s",
             "/samples_per_second/median /samples_per_second_interval", "{:.0f}", items),
      number("efficiency, %", "/efficiency/median /efficiency_interval", "{:.1f}", 100),
      number("GFLOP/s per rank", "/flops_per_second_and_rank/model", "{:.3g}", 1e-9),
      number("MFU, %", "/mfu", "{:.1f}", 100),
      number("HFU, %", "/hfu", "{:.1f}", 100),
      number("J per " + item, "/joules_per_" + item, "{:.3g}")};
  return fmt::format(
      "% trireme {}, trireme scale {}; needs \\usepackage{{booktabs}}\n{}"
      "% Medians of {} runs in {} order; {}.\n",
      version_text(), study.options.config,
      report::table_of(describe(rows, study.traits), columns).latex(), study.options.repeats,
      study.options.order == "drawn" ? "random" : "given", interval_note(study));
}

}  // namespace trireme::scale
