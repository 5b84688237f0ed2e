// SPDX-License-Identifier: Apache-2.0
#include "launch/study/scale/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/telemetry/environment.h"

namespace trireme::scale {
namespace {

using ordered_json = nlohmann::ordered_json;

ordered_json describe(const Spread& spread) {
  return {{"median", spread.median}, {"least", spread.min}, {"most", spread.max}};
}

ordered_json describe(const std::optional<RunResult>& run, const Point& point) {
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

void add_work(ordered_json& text, const Row& row, const ModelTraits& traits) {
  const Utilisation use = utilisation_of(row);
  text["flops_per_second_and_rank"] = {
      {"six_n", use.six_n}, {"model", use.model}, {"hardware", use.hardware}};
  if (use.mfu) text["mfu"] = *use.mfu;
  if (use.hfu) text["hfu"] = *use.hfu;
  if (row.joules_per_sample)
    text["joules_per_" + one_item(traits)] =
        *row.joules_per_sample / static_cast<double>(traits.targets_per_sample);
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
    runs.push_back(describe(run, row.point));
  const RunPlace& place = row.place;
  ordered_json text{{"mode", name_of(row.point.mode)},
                    {"ranks", row.point.ranks()},
                    {"layout", row.point.layout()},
                    {"data", row.point.mesh.data},
                    {"tensor", row.point.mesh.tensor},
                    {"pipeline", row.point.mesh.pipeline},
                    {"global_batch", row.point.global_batch},
                    {"settings", row.point.settings},
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
      row.samples_per_second.median * static_cast<double>(traits.targets_per_sample);
  // With a fixed loss the times are up to that.
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
  ordered_json& loss = text["loss_seconds"];
  for (std::size_t i = 0; i < loss_count; ++i)
    loss[std::string(loss_names[i])] = row.loss->parts[i];
  return text;
}

std::string pair_of(const std::optional<Interval>& interval) {
  return interval ? fmt::format(",{},{}", interval->low, interval->high) : ",,";
}

std::string csv_of_work(const Row& row, const ModelTraits& traits) {
  if (row.good == 0) return std::string(10, ',');
  const Utilisation use = utilisation_of(row);
  std::string text = pair_of(row.interval) + pair_of(row.loss ? row.loss->interval : std::nullopt) +
                     fmt::format(",{},{},{}", use.six_n, use.model, use.hardware);
  text += use.mfu ? fmt::format(",{},{}", *use.mfu, *use.hfu) : ",,";
  text += row.joules_per_sample
              ? fmt::format(",{}",
                            *row.joules_per_sample / static_cast<double>(traits.targets_per_sample))
              : ",";
  return text;
}

void add_once(std::vector<std::string>& to, const std::string& text) {
  if (!text.empty() && std::ranges::find(to, text) == to.end()) to.push_back(text);
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
             : "one run per point says nothing of the next: no intervals (--repeats)";
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

std::vector<std::string> verdicts_on(std::span<const Row> rows) {
  std::vector<std::string> verdicts;
  for (const Mode mode : {Mode::weak, Mode::strong, Mode::fixed_loss}) {
    const Row* const row = largest_of(rows, mode);
    if (row == nullptr) continue;
    const Row::Loss& loss = *row->loss;
    const auto most = std::ranges::max_element(loss.parts);
    std::string text =
        fmt::format("{} scaling is {:.1f} % efficient on {} ranks as {}", name_of(mode),
                    100 * loss.efficiency.median, row->point.ranks(), row->point.layout());
    if (loss.interval && loss.interval->low < 1 && loss.interval->high > 1)
      text += ", and runs vary by as much: no loss is shown";
    else if (loss.gap > 0)
      text += fmt::format(", and loses most by {} ({:.1f} % of a step)",
                          loss_titles[static_cast<std::size_t>(most - loss.parts.begin())],
                          100 * *most / row->parts[TimePart::period]);
    verdicts.push_back(text);
  }
  return verdicts;
}

std::vector<std::string> remarks_on(std::span<const Row> rows) {
  constexpr double notable_waits = 0.05, above = 1.02;
  std::vector<std::string> remarks;
  bool waited = false;
  for (const Row& row : rows) {
    const double share =
        row.good > 0 ? row.parts[TimePart::core_wait] / row.parts[TimePart::period] : 0.0;
    const std::string name = fmt::format("{} scaling, {} ranks as {}", name_of(row.point.mode),
                                         row.point.ranks(), row.point.layout());
    if (share >= notable_waits) {
      waited = true;
      remarks.push_back(
          fmt::format("{}: threads had no core for {:.0f} % of the step", name, 100 * share));
    }
    if (row.loss && row.loss->efficiency.median > above) {
      remarks.push_back(
          fmt::format("{}: {:.1f} % is more than ranks can gain by being more, unless their data "
                      "then fit their caches; look whether what it is compared with was disturbed",
                      name, 100 * row.loss->efficiency.median));
    }
  }
  if (waited)
    remarks.push_back(
        "where cores were waited for, other programs or ranks took them, and figures tell of "
        "those as well; measure again on cores of your own");
  return remarks;
}

std::string describe_place(const Study& study, std::span<const Row> rows) {
  const StudyPlace place = place_of(rows);
  if (place.hosts.empty()) return "no run has told where it was";
  return fmt::format(
      "{} ({}; {} cores{}), {} ranks started by {}, {}", fmt::join(place.hosts, ", "),
      fmt::join(place.cpus, ", "), place.cores, place.hosts.size() > 1 ? " each" : "", place.device,
      study.launcher.empty() ? "mpirun" : study.launcher,
      place.first == place.last ? place.first : fmt::format("{} to {}", place.first, place.last));
}

std::string csv_report(const Study& study, std::span<const Row> rows) {
  std::string text = fmt::format(
      "mode,ranks,layout,data,tensor,pipeline,global_batch,good_runs,runs,samples_per_second,"
      "samples_per_second_least,samples_per_second_most,{}_per_second,step_seconds,efficiency,"
      "efficiency_least,efficiency_most,ideal_seconds,gap_seconds",
      study.traits.item_name);
  for (const std::string_view name : loss_names)
    text += fmt::format(",{}_seconds", name);
  text += fmt::format(
      ",hosts,ranks_per_host,cores_per_host,shares_cores,samples_per_second_low,"
      "samples_per_second_high,efficiency_low,efficiency_high,six_n_flops_per_rank,"
      "model_flops_per_rank,hardware_flops_per_rank,mfu,hfu,joules_per_{},steps_to_loss\n",
      one_item(study.traits));
  for (const Row& row : rows) {
    const Point& point = row.point;
    text += fmt::format("{},{},{},{},{},{},{},{},{}", name_of(point.mode), point.ranks(),
                        point.layout(), point.mesh.data, point.mesh.tensor, point.mesh.pipeline,
                        point.global_batch, row.good, row.runs.size());
    if (row.good > 0) {
      const Spread& rate = row.samples_per_second;
      text += fmt::format(",{},{},{},{},{}", rate.median, rate.min, rate.max,
                          rate.median * static_cast<double>(study.traits.targets_per_sample),
                          row.parts[TimePart::period]);
    } else {
      text += ",,,,,";
    }
    if (row.loss) {
      const Spread& efficiency = row.loss->efficiency;
      text += fmt::format(",{},{},{},{},{},{}", efficiency.median, efficiency.min, efficiency.max,
                          row.loss->ideal, row.loss->gap, fmt::join(row.loss->parts, ","));
    } else {
      text += std::string(5 + loss_count, ',');
    }
    const RunPlace& place = row.place;
    text += place.hosts.empty()
                ? ",,,,"
                : fmt::format(",{},{},{},{}", place.hosts.size(), place.ranks_per_host, place.cores,
                              place.shares_cores());
    text += csv_of_work(row, study.traits);
    text += row.good > 0 && row.point.mode == Mode::fixed_loss ? fmt::format(",{}\n", row.steps)
                                                               : ",\n";
  }
  return text;
}

std::string json_report(const Study& study, std::span<const Row> rows) {
  ordered_json settings = ordered_json::object();
  for (const auto& [key, value] : study.identity)
    settings[key] = value;
  ordered_json points = ordered_json::array();
  for (const Row& row : rows)
    points.push_back(describe(row, study.traits));
  ordered_json extrapolations = ordered_json::array();
  for (const Extrapolation& one : extrapolate(study, rows))
    extrapolations.push_back(describe(one));
  const StudyPlace place = place_of(rows);
  const ordered_json text{{"version", version_text()},
                          {"config", study.options.config},
                          {"items", study.traits.item_name},
                          {"hosts", place.hosts},
                          {"cpus", place.cpus},
                          {"cores_per_host", place.cores},
                          {"device", place.device},
                          {"launcher", study.launcher},
                          {"first_run_started", place.first},
                          {"last_run_started", place.last},
                          {"settings", settings},
                          {"order", study.options.order},
                          {"hardware", study.hardware},
                          {"points", points},
                          {"extrapolations", extrapolations}};
  return text.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string text_report(const Study& study, std::span<const Row> rows) {
  std::string text =
      fmt::format("{:<11}{:>6}  {:<24}{:>12}{:>11}  {:<15}{:>8}{:>8}{:>8}{:>10}{:>9}\n", "mode",
                  "ranks", "layout", study.traits.item_name + "/s", "efficiency", "", "comm",
                  "bubble", "data", "straggler", "compute");
  for (const Row& row : rows) {
    text += fmt::format("{:<11}{:>6}{} {:<24}", name_of(row.point.mode), row.point.ranks(),
                        row.place.shares_cores() ? "*" : " ", row.point.layout());
    if (row.good == 0) {
      text += "no run ended well\n";
      continue;
    }
    text += fmt::format("{:>12.0f}", row.samples_per_second.median *
                                         static_cast<double>(study.traits.targets_per_sample));
    if (!row.loss) {
      text += "  nothing to compare with\n";
      continue;
    }
    const Row::Loss& loss = *row.loss;
    text += fmt::format("{:>9.1f} %  {:<15}", 100 * loss.efficiency.median,
                        interval_text(loss.interval, 100, 1));
    constexpr std::array<int, loss_count> widths = {8, 8, 8, 10, 9};
    for (std::size_t i = 0; i < loss_count; ++i)
      text +=
          fmt::format("{:>{}.1f}", 100 * loss.parts[i] / row.parts[TimePart::period], widths[i]);
    text += "\n";
  }
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
  for (const std::string& verdict : verdicts_on(rows))
    text += "verdict: " + verdict + "\n";
  for (const std::string& remark : remarks_on(rows))
    text += "note: " + remark + "\n";
  return text + describe_place(study, rows) + "\n";
}

}  // namespace trireme::scale
