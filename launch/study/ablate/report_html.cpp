// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "launch/observe/report/html.h"
#include "launch/study/ablate/report.h"
#include "launch/study/study_directory.h"
#include "runtime/telemetry/environment.h"

namespace trireme::ablate {
namespace {

using nlohmann::ordered_json;
using report::escaped;
using report::json_numbers;
using Kind = report::Column::Kind;

constexpr std::size_t most_points = 300;
constexpr double nothing = std::numeric_limits<double>::quiet_NaN();

// A variant's curve: means over its seeds.
struct MeanCurve {
  std::vector<double> steps{}, items{}, seconds{}, loss{};
};

// Of the seeds' values from index `first` to `last`.
void add_mean(MeanCurve& mean, std::span<const std::vector<Curve::Value>* const> seeds,
              std::size_t first, std::size_t last) {
  double steps = 0, items = 0, seconds = 0, loss = 0;
  double places = 0, losses = 0;
  for (const auto* const values : seeds) {
    const std::size_t end = std::min(last, values->size());
    if (end <= first) continue;
    const Curve::Place& place = (*values)[end - 1].place;
    steps = std::max(steps, place.steps);
    items += place.items;
    seconds += place.seconds;
    ++places;
    for (std::size_t i = first; i < end; ++i) {
      if (!std::isfinite((*values)[i].loss)) continue;
      loss += (*values)[i].loss;
      ++losses;
    }
  }
  if (places == 0) return;
  mean.steps.push_back(steps);
  mean.items.push_back(items / places);
  mean.seconds.push_back(seconds / places);
  mean.loss.push_back(losses > 0 ? loss / losses : nothing);
}

MeanCurve mean_of(std::span<const std::vector<Curve::Value>* const> seeds) {
  std::size_t longest = 0;
  for (const auto* const values : seeds)
    longest = std::max(longest, values->size());
  const std::size_t stride = (longest + most_points - 1) / most_points;
  MeanCurve mean;
  for (std::size_t first = 0; first < longest; first += stride)
    add_mean(mean, seeds, first, first + stride);
  return mean;
}

ordered_json curve_json(const MeanCurve& curve) {
  return {{"steps", json_numbers(curve.steps)},
          {"items", json_numbers(curve.items)},
          {"seconds", json_numbers(curve.seconds)},
          {"loss", json_numbers(curve.loss)}};
}

ordered_json variant_json(const Study& study, const AblationResult& result, const Row& row) {
  std::vector<const std::vector<Curve::Value>*> training, evaluations;
  for (std::size_t seed = 0; seed < study.seeds.size(); ++seed) {
    const Cell& cell = result.cells[row.variant * study.seeds.size() + seed];
    training.push_back(&cell.curve.training);
    evaluations.push_back(&cell.curve.evaluations);
  }
  return {{"name", study.variants[row.variant].name},
          {"training", curve_json(mean_of(training))},
          {"evaluations", curve_json(mean_of(evaluations))}};
}

// Line breaks after commas, for narrow screens.
std::string breakable(const std::string& name) {
  std::string text = escaped(name);
  for (std::size_t at = text.find(','); at != std::string::npos; at = text.find(',', at + 1))
    text.insert(at + 1, "<wbr>");
  return text;
}

// A forest plot of the differences at equal steps: mean, interval and seeds of each variant.
std::string forest(const Study& study, std::span<const Row> rows) {
  double low = 0, high = 0;
  const auto add = [&](double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  };
  for (const Row& row : rows) {
    const auto& difference = row.differences.front();
    if (!difference) continue;
    std::ranges::for_each(difference->by_seed, add);
    if (!difference->interval) continue;
    add(difference->interval->low);
    add(difference->interval->high);
  }
  if (!(high > low)) return {};
  const auto at = [&](double value) { return 2 + 96 * (value - low) / (high - low); };
  const auto mark = [](std::string_view kind, double left) {
    return fmt::format("<i class=\"{}\" style=\"left:{:.2f}%\"></i>", kind, left);
  };
  std::string text;
  for (const Row& row : rows) {
    const auto& difference = row.differences.front();
    if (!difference) continue;
    const std::string verdict(difference->p ? difference->verdict() : "open");
    std::string marks = mark("zero", at(0));
    if (difference->interval) {
      const double left = at(difference->interval->low);
      marks += fmt::format("<i class=\"whisker\" style=\"left:{:.2f}%;width:{:.2f}%\"></i>", left,
                           at(difference->interval->high) - left);
    }
    marks += mark("mean", at(difference->mean));
    for (const double seed : difference->by_seed)
      marks += mark("seed", at(seed));
    text += fmt::format(
        "<span class=\"name\">{}</span><span class=\"track {}\" aria-hidden=\"true\">{}</span>"
        "<span class=\"{}\">{:+.4f} {}</span>\n",
        breakable(study.variants[row.variant].name), verdict, marks, verdict, difference->mean,
        difference->verdict());
  }
  return "<figure class=\"broad\"><h3>Difference to the base at equal steps</h3>\n"
         "<div class=\"forest\">\n" +
         text +
         "</div>\n<figcaption>Left of the dashed line: better than the base with the same seed. "
         "Large points are means over the seeds, bars their 95 % intervals, small points the "
         "seeds. Colours are verdicts: better, worse, or open.</figcaption></figure>\n";
}

std::string headline(const Study& study, std::span<const Row> rows) {
  int better = 0, worse = 0;
  for (const Row& row : rows) {
    if (!row.differences.front()) continue;
    better += row.differences.front()->verdict() == "better" ? 1 : 0;
    worse += row.differences.front()->verdict() == "worse" ? 1 : 0;
  }
  std::vector<report::Headline> numbers{
      {fmt::format("{} of {}", better, study.variants.size() - 1),
       fmt::format("variants are better than the base, {} worse, the others open", worse)}};
  if (rows.front().seeds > 0)
    numbers.push_back(
        {fmt::format("{:.4f}", rows.front().metric), "the base's " + metric_text(study)});
  if (rows.size() > 1 && rows[1].differences.front())
    numbers.push_back(
        {fmt::format("{:+.4f}", rows[1].differences.front()->mean),
         "mean difference of the best variant, " + study.variants[rows[1].variant].name});
  return report::headline_html(numbers);
}

std::string failures(const Study& study, const AblationResult& result) {
  std::vector<report::Failure> failures;
  for (const Cell& cell : result.cells)
    if (cell.state == CellState::failed)
      failures.push_back(
          {fmt::format("{}, seed {}", study.variants[cell.variant].name, study.seeds[cell.seed]),
           fmt::format("failed with code {}: {}", cell.code, cell.error)});
  return report::failures_html(failures);
}

std::string cells_table(const Study& study, const AblationResult& result) {
  report::Table table({{"variant", Kind::text},
                       {"seed"},
                       {"state", Kind::text},
                       {"steps"},
                       {"exact commands; a shared stretch is trained once, and what follows "
                        "continues from its checkpoint",
                        Kind::html}});
  for (const Cell& cell : result.cells) {
    std::string commands;
    for (const Leg& leg : cell.legs)
      commands += fmt::format("<div>steps {} to {}{}: <code>{}</code></div>", leg.from + 1, leg.to,
                              leg.shared ? ", shared" : "", escaped(leg.command));
    if (cell.state == CellState::failed)
      commands +=
          fmt::format("<div>failed with code {}: {}; log: {}</div>", cell.code, escaped(cell.error),
                      escaped(cell.legs.empty() ? "" : cell.legs.back().log));
    table.add({study.variants[cell.variant].name, fmt::format("{}", study.seeds[cell.seed]),
               std::string(name_of(cell.state)), fmt::format("{}", cell.steps), commands});
  }
  return table.folded_html("Cells and their commands");
}

constexpr std::pair<std::string_view, std::string_view> axis_choices[] = {
    {"steps", "steps"},
    {"items", "tokens or images seen"},
    {"seconds", "time"},
    {"cost", "cost in rank hours"}};

}  // namespace

std::string html_report(const Study& study, const AblationResult& result,
                        std::span<const Row> rows) {
  ordered_json variants = ordered_json::array();
  for (const Row& row : rows)
    variants.push_back(variant_json(study, result, row));
  const std::string body =
      fmt::format("<p class=\"soft\">trireme {}; {}, of {}, on {} rank{}, {} seed{}{}.</p>\n",
                  escaped(version_text()), escaped(study.file), escaped(study.config), study.ranks,
                  study.ranks > 1 ? "s" : "", study.seeds.size(), study.seeds.size() > 1 ? "s" : "",
                  result.interrupted ? "; interrupted, --resume continues it" : "") +
      failures(study, result) + headline(study, rows) + forest(study, rows) +
      table_of(study, rows, /*for_page=*/true).html("Variants") +
      report::axis_choice_html("Curves by", axis_choices, "steps") +
      "<div id=\"ablation\"></div>\n<h2>What the words mean</h2>\n" +
      report::list_html(definitions(study, result)) + cells_table(study, result) +
      report::folded("The study", studies::settings_html(study.identity));
  return report::html_page("Ablation: " + std::filesystem::path(study.file).filename().string(),
                           body,
                           {{"kind", "ablation"},
                            {"items", study.traits.item_name},
                            {"ranks", study.ranks},
                            {"metric", metric_text(study)},
                            {"variants", variants}});
}

}  // namespace trireme::ablate
