// SPDX-License-Identifier: Apache-2.0
#include "launch/study/ablate/comparison.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace trireme::ablate {
namespace {

constexpr std::array axes = {Axis::steps, Axis::items, Axis::seconds};

std::span<const Cell> cells_of(const Study& study, const AblationResult& result,
                               std::size_t variant) {
  return std::span(result.cells).subspan(variant * study.seeds.size(), study.seeds.size());
}

// Of a finished or stopped cell.
std::optional<double> own_metric(const Study& study, const Cell& cell) {
  if (cell.state != CellState::done && cell.state != CellState::stopped) return {};
  const auto value = metric_at(study, cell.curve, Axis::steps, cell.curve.end().steps);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::optional<Difference> difference(const Study& study, std::span<const Cell> own,
                                     std::span<const Cell> base, Axis axis) {
  Difference difference;
  for (std::size_t seed = 0; seed < own.size(); ++seed) {
    if (!own_metric(study, own[seed]) || !own_metric(study, base[seed])) continue;
    const double amount = std::min(own[seed].curve.end().at(axis), base[seed].curve.end().at(axis));
    const auto value = metric_at(study, own[seed].curve, axis, amount);
    const auto against = metric_at(study, base[seed].curve, axis, amount);
    if (value && against && std::isfinite(*value - *against))
      difference.by_seed.push_back(*value - *against);
  }
  if (difference.by_seed.empty()) return {};
  difference.mean = studies::mean_of(difference.by_seed);
  difference.interval = studies::mean_interval(difference.by_seed);
  return difference;
}

CellState state_of(std::span<const Cell> cells) {
  CellState state = CellState::done;
  for (const Cell& cell : cells) {
    if (cell.state == CellState::failed) return CellState::failed;
    if (cell.state != CellState::done) state = cell.state;
  }
  return state;
}

Row row_of(const Study& study, const AblationResult& result, std::size_t variant) {
  const auto own = cells_of(study, result, variant), base = cells_of(study, result, 0);
  Row row{.variant = variant, .state = state_of(own)};
  std::vector<double> values;
  for (const Cell& cell : own) {
    const auto value = own_metric(study, cell);
    if (!value) continue;
    values.push_back(*value);
    const Curve::Place end = cell.curve.end();
    row.steps += end.steps;
    row.items += end.items;
    row.seconds += end.seconds;
  }
  row.seeds = static_cast<int>(values.size());
  if (values.empty()) return row;
  for (double* const sum : {&row.steps, &row.items, &row.seconds})
    *sum /= row.seeds;
  row.rank_hours = row.seconds * study.ranks / seconds_per_hour;
  row.metric = studies::mean_of(values);
  row.interval = studies::mean_interval(values);
  if (variant == 0) return row;
  for (const Axis axis : axes)
    row.differences[static_cast<std::size_t>(axis)] = difference(study, own, base, axis);
  return row;
}

// Each axis is a family of tests, one per variant of the study, finished or not.
void test(const Study& study, std::span<Row> variants, Axis axis) {
  const auto index = static_cast<std::size_t>(axis);
  std::vector<std::optional<double>> p;
  for (const Row& row : variants) {
    const auto& difference = row.differences[index];
    const bool whole = difference && row.state == CellState::done &&
                       difference->by_seed.size() == study.seeds.size();
    p.push_back(whole ? studies::paired_p(difference->by_seed) : std::nullopt);
  }
  const std::vector<double> corrected = studies::holm(p);
  for (std::size_t i = 0; i < p.size(); ++i)
    if (p[i]) variants[i].differences[index]->p = corrected[i];
}

struct Ranked {
  std::size_t variant = 0;
  double mean = std::numeric_limits<double>::infinity();
};

Ranked rank(const Standing& standing) {
  std::vector<double> known;
  for (const auto& difference : standing.differences)
    if (difference) known.push_back(*difference);
  Ranked ranked{.variant = standing.variant};
  if (!known.empty() && std::isfinite(studies::mean_of(known)))
    ranked.mean = studies::mean_of(known);
  return ranked;
}

}  // namespace

std::string_view Difference::verdict() const {
  if (!p) return "";
  return *p > 0.05 ? "open" : mean < 0 ? "better" : "worse";
}

std::vector<Row> compare(const Study& study, const AblationResult& result) {
  std::vector<Row> rows;
  for (std::size_t variant = 0; variant < study.variants.size(); ++variant)
    rows.push_back(row_of(study, result, variant));
  for (const Axis axis : axes)
    test(study, std::span(rows).subspan(1), axis);
  std::ranges::stable_sort(rows.begin() + 1, rows.end(), {}, [](const Row& row) {
    const auto& difference = row.differences.front();
    return difference ? difference->mean : std::numeric_limits<double>::infinity();
  });
  return rows;
}

std::string metric_text(const Study& study) {
  if (study.metric == Metric::validation_loss) return "validation loss of the last evaluation";
  return fmt::format("mean training loss of the last {} steps", study.last_losses);
}

Judgement judge(const Study& study, std::int64_t step, std::span<const Standing> standings) {
  std::vector<Ranked> ranked;
  for (const Standing& standing : standings)
    ranked.push_back(rank(standing));
  std::ranges::stable_sort(ranked, {}, &Ranked::mean);
  const auto wanted = std::ceil(study.halving.keep * static_cast<double>(ranked.size()) - 1e-9);
  const auto kept = std::max<std::size_t>(static_cast<std::size_t>(wanted), 1);
  Judgement judgement;
  std::vector<std::string> stay, go;
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    const auto& [variant, mean] = ranked[i];
    const bool stays = i < kept && std::isfinite(mean);
    const std::string& name = study.variants[variant].name;
    (stays ? stay : go)
        .push_back(std::isfinite(mean) ? fmt::format("{} ({:+.4f})", name, mean)
                                       : fmt::format("{} (no value)", name));
    if (!stays) judgement.stopped.push_back(variant);
  }
  judgement.text =
      fmt::format("after step {}, by the mean difference to the base: {} {}; stopped: {}", step,
                  stay.empty() ? "nothing" : fmt::format("{}", fmt::join(stay, ", ")),
                  stay.size() == 1 ? "goes on" : "go on",
                  go.empty() ? "none" : fmt::format("{}", fmt::join(go, ", ")));
  return judgement;
}

}  // namespace trireme::ablate
