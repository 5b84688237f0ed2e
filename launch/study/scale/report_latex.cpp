// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "launch/study/scale/report.h"
#include "runtime/telemetry/environment.h"

namespace trireme::scale {
namespace {

std::string plain(std::string_view text) {
  std::string safe;
  for (const char letter : text) {
    if (std::string_view("&%$#_{}").find(letter) != std::string_view::npos) safe += '\\';
    if (letter == '\\')
      safe += "\\textbackslash{}";
    else if (letter == '~' || letter == '^')
      safe += fmt::format("\\{}{{}}", letter);
    else
      safe += letter;
  }
  return safe;
}

std::string percent(const std::optional<double>& share) {
  return share ? fmt::format("{:.1f}", 100 * *share) : "--";
}

std::string line(const Study& study, const Row& row) {
  const auto items = static_cast<double>(study.traits.targets_per_sample);
  std::string text = fmt::format("{} & {} & {} & {}", name_of(row.point.mode), row.point.ranks(),
                                 plain(row.point.layout()), row.point.global_batch);
  if (row.good == 0) return text + " & -- & -- & -- & -- & -- & --";
  const Utilisation use = utilisation_of(row);
  text += fmt::format(" & {:.0f}", row.samples_per_second.median * items);
  text += row.interval ? " " + interval_text(row.interval, items, 0) : "";
  text += row.loss ? fmt::format(" & {:.1f}", 100 * row.loss->efficiency.median) : " & --";
  if (row.loss && row.loss->interval) text += " " + interval_text(row.loss->interval, 100, 1);
  text += fmt::format(" & {:.3g} & {} & {}", 1e-9 * use.model, percent(use.mfu), percent(use.hfu));
  text +=
      row.joules_per_sample ? fmt::format(" & {:.3g}", *row.joules_per_sample / items) : " & --";
  return text;
}

}  // namespace

std::string latex_report(const Study& study, std::span<const Row> rows) {
  std::string text = fmt::format(
      "% trireme {}, trireme scale {}; needs \\usepackage{{booktabs}}\n"
      "\\begin{{tabular}}{{lrlrrrrrrr}}\n\\toprule\n"
      "scaling & ranks & layout & batch & {}/s & efficiency, \\% & GFLOP/s per rank & MFU, \\% & "
      "HFU, \\% & J per {} \\\\\n\\midrule\n",
      version_text(), study.options.config, plain(study.traits.item_name),
      plain(one_item(study.traits)));
  for (const Row& row : rows)
    text += line(study, row) + " \\\\\n";
  return text +
         fmt::format("\\bottomrule\n\\end{{tabular}}\n% Medians of {} runs in {} order; {}.\n",
                     study.options.repeats, study.options.order == "drawn" ? "random" : "given",
                     interval_note(study));
}

}  // namespace trireme::scale
