// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "launch/observe/report/html.h"
#include "launch/study/ablate/report.h"
#include "runtime/telemetry/environment.h"

namespace trireme::ablate {
namespace {

using report::escaped;
using report::json_numbers;
using report::json_string;

constexpr std::size_t most_points = 300;
constexpr double nothing = std::numeric_limits<double>::quiet_NaN();

// A variant's curve: means over its seeds, by place.
struct MeanCurve {
  std::vector<double> steps{}, items{}, seconds{}, loss{};
};

// The seeds' values of one index, which is one step while none has ended.
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

std::string curve_json(const MeanCurve& curve) {
  return fmt::format("{{\"steps\":{},\"items\":{},\"seconds\":{},\"loss\":{}}}",
                     json_numbers(curve.steps), json_numbers(curve.items),
                     json_numbers(curve.seconds), json_numbers(curve.loss));
}

std::string variant_json(const Study& study, const AblationResult& result, const Row& row) {
  std::vector<const std::vector<Curve::Value>*> training, evaluations;
  for (std::size_t seed = 0; seed < study.seeds.size(); ++seed) {
    const Cell& cell = result.cells[row.variant * study.seeds.size() + seed];
    training.push_back(&cell.curve.training);
    evaluations.push_back(&cell.curve.evaluations);
  }
  return fmt::format("{{\"name\":{},\"training\":{},\"evaluations\":{}}}",
                     json_string(study.variants[row.variant].name), curve_json(mean_of(training)),
                     curve_json(mean_of(evaluations)));
}

std::string scrolling(std::string_view name, const std::string& table) {
  return fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table>\n{}</table>"
      "</div>\n",
      name, table);
}

std::string difference_cells(const std::optional<Difference>& difference) {
  if (!difference) return "<td>–</td><td class=\"text\"></td>";
  std::string interval = "one seed";
  if (difference->interval)
    interval =
        fmt::format("{:+.4f}..{:+.4f}", difference->interval->low, difference->interval->high);
  if (difference->p)
    interval += fmt::format(", p {:.3f}, {}", *difference->p, difference->verdict());
  return fmt::format("<td>{:+.4f}</td><td class=\"text\">{}</td>", difference->mean, interval);
}

// Behind commas, where a screen is narrow.
std::string breakable(const std::string& name) {
  std::string text = escaped(name);
  for (std::size_t at = text.find(','); at != std::string::npos; at = text.find(',', at + 1))
    text.insert(at + 1, "<wbr>");
  return text;
}

// Of the differences at equal steps: a row per variant with its mean, its interval, its seeds, and
// 0.
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
  std::string text;
  for (const Cell& cell : result.cells)
    if (cell.state == CellState::failed)
      text += fmt::format("<li><b>{}, seed {}</b> failed with code {}: {}</li>\n",
                          escaped(study.variants[cell.variant].name), study.seeds[cell.seed],
                          cell.code, escaped(cell.error));
  if (text.empty()) return {};
  return "<div class=\"failure\"><strong>What went wrong</strong><ul>\n" + text + "</ul></div>\n";
}

// With one batch for all, equal tokens are equal steps.
bool tokens_are_steps(std::span<const Row> rows) {
  return std::ranges::all_of(rows, [](const Row& row) {
    const auto &steps = row.differences[static_cast<std::size_t>(Axis::steps)],
               &items = row.differences[static_cast<std::size_t>(Axis::items)];
    return steps.has_value() == items.has_value() && (!steps || steps->by_seed == items->by_seed);
  });
}

std::string table_head(const Study& study, bool one_column) {
  const std::string items = escaped(study.traits.item_name);
  std::vector<std::string> equal{one_column ? "steps and " + items : "steps"};
  if (!one_column) equal.push_back(items);
  equal.push_back("time and cost");
  std::string first, second;
  for (const std::string& what : equal) {
    first += fmt::format("<th class=\"text\" colspan=\"2\">difference at equal {}</th>", what);
    second += "<th>mean</th><th class=\"text\">95 %, p, verdict</th>";
  }
  const auto tall = [](std::string_view title, std::string_view kind = "") {
    return fmt::format("<th rowspan=\"2\"{}>{}</th>", kind, title);
  };
  constexpr std::string_view left = " class=\"text\"";
  return fmt::format("<tr>{}{}{}{}{}{}{}{}{}{}</tr>\n<tr>{}</tr>\n", tall("variant", left),
                     tall("state", left), tall("seeds"), tall("metric"), first, tall("steps"),
                     tall(items), tall("time, s"), tall("rank hours"),
                     study.price_per_rank_hour > 0 ? tall("price") : "", second);
}

std::string table(const Study& study, std::span<const Row> rows) {
  const bool one_column = tokens_are_steps(rows);
  std::string text = table_head(study, one_column);
  for (const Row& row : rows) {
    text += fmt::format(
        "<tr><th scope=\"row\" class=\"text name\">{}</th><td class=\"text\">{}</td><td>{}/{}</td>",
        breakable(study.variants[row.variant].name), name_of(row.state), row.seeds,
        study.seeds.size());
    if (row.seeds > 0) {
      text += fmt::format("<td>{:.4f}</td>", row.metric);
      for (std::size_t axis = 0; axis < row.differences.size(); ++axis)
        if (!one_column || axis != static_cast<std::size_t>(Axis::items))
          text += difference_cells(row.differences[axis]);
      text += fmt::format("<td>{:.0f}</td><td>{:.0f}</td><td>{:.1f}</td><td>{:.4f}</td>", row.steps,
                          row.items, row.seconds, row.rank_hours);
      if (study.price_per_rank_hour > 0)
        text += fmt::format("<td>{:.4g}</td>", row.rank_hours * study.price_per_rank_hour);
    }
    text += "</tr>\n";
  }
  return scrolling("Variants", text);
}

std::string cells_table(const Study& study, const AblationResult& result) {
  std::string text =
      "<tr><th class=\"text\">variant</th><th>seed</th><th class=\"text\">state</th><th>steps</th>"
      "<th class=\"text\">exact commands; a shared stretch is trained once, and what follows goes "
      "on from its checkpoint</th></tr>\n";
  for (const Cell& cell : result.cells) {
    std::string commands;
    for (const Leg& leg : cell.legs)
      commands += fmt::format("<div>steps {} to {}{}: <code>{}</code></div>", leg.from + 1, leg.to,
                              leg.shared ? ", shared" : "", escaped(leg.command));
    if (cell.state == CellState::failed)
      commands +=
          fmt::format("<div>failed with code {}: {}; log: {}</div>", cell.code, escaped(cell.error),
                      escaped(cell.legs.empty() ? "" : cell.legs.back().log));
    text += fmt::format(
        "<tr><td class=\"text\">{}</td><td>{}</td><td class=\"text\">{}</td><td>{}</td>"
        "<td class=\"text long\">{}</td></tr>\n",
        escaped(study.variants[cell.variant].name), study.seeds[cell.seed], name_of(cell.state),
        cell.steps, commands);
  }
  return "<details><summary>Cells and their commands</summary>" + scrolling("Cells", text) +
         "</details>\n";
}

std::string settings(const Study& study) {
  std::string text;
  for (const auto& [key, value] : study.identity)
    text +=
        value.find('\n') == std::string::npos
            ? fmt::format("<p><code>{} {}</code></p>\n", escaped(key), escaped(value))
            : fmt::format("<details><summary>{}</summary><pre tabindex=\"0\">{}</pre></details>\n",
                          escaped(key), escaped(value));
  return "<details><summary>The study</summary>\n" + text + "</details>\n";
}

constexpr const char* axis_choice =
    "<div class=\"bar\"><label for=\"axis\">Curves by</label><select id=\"axis\" "
    "autocomplete=\"off\"><option value=\"steps\" selected>steps</option><option "
    "value=\"items\">tokens or images seen</option><option value=\"seconds\">time</option><option "
    "value=\"cost\">cost in rank hours</option></select><span class=\"soft\">Drag over a chart to "
    "look closer, double click or Escape to go back; click a name to hide it.</span></div>\n"
    "<noscript><p class=\"notes\">The charts need JavaScript; everything else is here.</p>"
    "</noscript>\n";

}  // namespace

std::string html_report(const Study& study, const AblationResult& result,
                        std::span<const Row> rows) {
  std::string notes, variants;
  for (const std::string& line : definitions(study, result))
    notes += fmt::format("<li>{}</li>\n", escaped(line));
  for (const Row& row : rows)
    variants += (variants.empty() ? "" : ",") + variant_json(study, result, row);
  const std::string body =
      fmt::format("<p class=\"soft\">trireme {}; {}, of {}, on {} rank{}, {} seed{}{}.</p>\n",
                  escaped(version_text()), escaped(study.file), escaped(study.config), study.ranks,
                  study.ranks > 1 ? "s" : "", study.seeds.size(), study.seeds.size() > 1 ? "s" : "",
                  result.interrupted ? "; interrupted, --resume goes on" : "") +
      failures(study, result) + headline(study, rows) + forest(study, rows) + table(study, rows) +
      axis_choice + "<div id=\"ablation\"></div>\n<h2>What the words mean</h2>\n<ul>\n" + notes +
      "</ul>\n" + cells_table(study, result) + settings(study);
  return report::html_page(
      {.title = "Ablation: " + std::filesystem::path(study.file).filename().string(),
       .body = body,
       .data = fmt::format(
           "{{\"kind\":\"ablation\",\"items\":{},\"ranks\":{},\"metric\":{},\"variants\":[{}]}}",
           json_string(study.traits.item_name), study.ranks, json_string(metric_text(study)),
           variants)});
}

}  // namespace trireme::ablate
