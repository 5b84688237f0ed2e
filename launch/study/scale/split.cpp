// SPDX-License-Identifier: Apache-2.0
#include "launch/study/scale/split.h"

#include <algorithm>
#include <iterator>

namespace trireme::scale {
namespace {

std::array<double, loss_count> in_order(const Times& parts) {
  using enum TimePart;
  return {parts[exposed_comm], parts[bubble],    parts[data_wait],
          parts[straggler],    parts[core_wait], parts[compute]};
}

double steps_of(const RunResult& run) {
  return std::max<double>(1, static_cast<double>(run.steps_to_loss));
}

double rate_of(const Point& point, const RunResult& run) {
  return static_cast<double>(point.global_batch) * steps_of(run) / run.parts[TimePart::period];
}

bool ended_well(const std::optional<RunResult>& run) {
  return run && run->code == 0;
}

// Of the repeats in which both runs succeeded. Runs of a repeat are close in time, which cancels a
// drift over the study.
std::vector<double> efficiencies(const Row& row, const Row& base, double k) {
  std::vector<double> all;
  for (std::size_t i = 0; i < std::min(row.runs.size(), base.runs.size()); ++i)
    if (ended_well(row.runs[i]) && ended_well(base.runs[i]))
      all.push_back(k * base.runs[i]->parts[TimePart::period] /
                    row.runs[i]->parts[TimePart::period]);
  return all;
}

// For values that are never negative.
std::optional<studies::Interval> interval_of(std::span<const double> values) {
  auto interval = studies::mean_interval(values);
  if (interval) interval->low = std::max(interval->low, 0.0);
  return interval;
}

Row summarise(const PointResult& result) {
  Row row{.point = result.point, .runs = result.runs};
  std::vector<const RunResult*> good;
  for (const auto& run : result.runs) {
    if (ended_well(run)) good.push_back(&*run);
  }
  row.good = static_cast<int>(good.size());
  if (good.empty()) return row;
  std::ranges::sort(good, {}, [](const RunResult* run) { return run->parts[TimePart::period]; });
  const RunResult& lower = *good[(good.size() - 1) / 2];
  const RunResult& upper = *good[good.size() / 2];
  row.parts += lower.parts;
  row.parts += upper.parts;
  row.parts *= 0.5;
  row.slowest_rank = upper.slowest_rank;
  row.place = upper.place;
  const auto batch = static_cast<double>(row.point.global_batch);
  row.steps = (steps_of(lower) + steps_of(upper)) / 2;
  std::vector<double> rates;
  std::ranges::transform(good, std::back_inserter(rates),
                         [&](const RunResult* run) { return rate_of(row.point, *run); });
  row.samples_per_second = {.median = batch * row.steps / row.parts[TimePart::period],
                            .min = std::ranges::min(rates),
                            .max = std::ranges::max(rates)};
  row.interval = interval_of(rates);
  std::vector<double> joules;
  for (const RunResult* const run : good)
    if (run->joules_per_step) joules.push_back(*run->joules_per_step / batch);
  if (joules.size() == good.size()) row.joules_per_sample = studies::median_of(joules);
  return row;
}

Row::Loss loss_of(const Row& row, const Row& base) {
  const double work = row.point.mode == Mode::fixed_loss
                          ? 1
                          : static_cast<double>(row.point.global_batch) /
                                static_cast<double>(base.point.global_batch);
  const double k = work * base.point.ranks() / row.point.ranks();
  Row::Loss loss;
  loss.ideal = k * base.parts[TimePart::period];
  loss.gap = row.parts[TimePart::period] - loss.ideal;
  const auto own = in_order(row.parts), of_base = in_order(base.parts);
  for (std::size_t i = 0; i < loss_count; ++i)
    loss.parts[i] = own[i] - k * of_base[i];
  std::vector<double> periods;
  for (const auto& run : row.runs)
    if (ended_well(run)) periods.push_back(run->parts[TimePart::period]);
  loss.efficiency = {.median = loss.ideal / row.parts[TimePart::period],
                     .min = loss.ideal / std::ranges::max(periods),
                     .max = loss.ideal / std::ranges::min(periods)};
  if (&row != &base) loss.interval = interval_of(efficiencies(row, base, k));
  return loss;
}

}  // namespace

Utilisation utilisation_of(const Row& row) {
  const PointWork& work = row.point.work;
  const double period = row.parts[TimePart::period] / row.steps;
  const double rank_seconds = period * row.point.ranks();
  if (!(rank_seconds > 0)) return {};
  Utilisation all{.six_n = work.six_n / rank_seconds,
                  .model = work.model / rank_seconds,
                  .hardware = work.hardware / rank_seconds};
  if (work.peak > 0) {
    all.mfu = work.model / period / work.peak;
    all.hfu = work.hardware / period / work.peak;
  }
  return all;
}

std::vector<Row> attribute(const std::vector<PointResult>& points) {
  std::vector<Row> rows;
  for (const PointResult& point : points)
    rows.push_back(summarise(point));
  for (Row& row : rows) {
    const Row& base = *std::ranges::find_if(
        rows, [&](const Row& other) { return other.point.mode == row.point.mode; });
    if (row.good > 0 && base.good > 0) row.loss = loss_of(row, base);
  }
  return rows;
}

}  // namespace trireme::scale
