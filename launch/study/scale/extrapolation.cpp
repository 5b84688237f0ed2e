// SPDX-License-Identifier: Apache-2.0
#include "launch/study/scale/split.h"

#include <algorithm>

#include "runtime/plan/hardware.h"

namespace trireme::scale {
namespace {

bool counts(const Row& row) {
  return row.good > 0 && row.point.work.predicted.value_or(0) > 0;
}

double correction_of(std::span<const Row* const> rows) {
  std::vector<double> ratios;
  for (const Row* const row : rows)
    ratios.push_back(row->parts[TimePart::period] / *row->point.work.predicted);
  return ratios.empty() ? 1 : studies::median_of(ratios);
}

// `point` with `times` the data ranks; nothing if the config refuses it.
std::optional<Point> grown(const Study& study, Point point, int times) {
  point.mesh.data *= times;
  if (point.mode == Mode::weak) point.global_batch *= times;
  try {
    point.work = work_of(config_of(study.options, point));
    return point;
  } catch (const Error&) {
    return {};
  }
}

void predict(const Study& study, const Row& base, const Row& last, double correction, int most,
             Extrapolation& all) {
  for (int times = 2; last.point.ranks() <= most / times; times *= 2) {
    const auto point = grown(study, last.point, times);
    if (!point || !point->work.predicted) continue;
    const double seconds = correction * *point->work.predicted;
    const double rate = static_cast<double>(point->global_batch) / seconds / point->ranks();
    const double base_rate = static_cast<double>(base.point.global_batch) /
                             base.parts[TimePart::period] / base.point.ranks();
    all.predictions.push_back(
        {.point = *point, .seconds = seconds, .efficiency = rate / base_rate});
  }
}

Extrapolation of_mode(const Study& study, Mode mode, std::span<const Row> rows, int most) {
  Extrapolation all{.mode = mode};
  std::vector<const Row*> used;
  for (const Row& row : rows)
    if (row.point.mode == mode && counts(row)) used.push_back(&row);
  if (used.empty()) return all;
  const auto by_ranks = [](const Row* row) { return row->point.ranks(); };
  std::ranges::stable_sort(used, {}, by_ranks);
  const int largest = used.back()->point.ranks();
  const auto held = std::ranges::find(used, largest, by_ranks);
  if (held == used.begin()) return all;  // one number of ranks shows no trend
  all.correction = correction_of(std::span(used.begin(), held));
  for (auto row = held; row != used.end(); ++row)
    all.held_out.push_back(
        {.point = (*row)->point,
         .error =
             all.correction * *(*row)->point.work.predicted / (*row)->parts[TimePart::period] - 1});
  predict(study, *used.front(), **held, correction_of(used), most, all);
  return all;
}

}  // namespace

std::vector<Extrapolation> extrapolate(const Study& study, std::span<const Row> rows, int nodes) {
  std::vector<Extrapolation> all;
  if (study.hardware.empty()) return all;
  const int most = plan::load_hardware(study.hardware).node.ranks * nodes;
  for (const Mode mode : {Mode::weak, Mode::strong}) {
    Extrapolation one = of_mode(study, mode, rows, most);
    if (!one.held_out.empty()) all.push_back(std::move(one));
  }
  return all;
}

}  // namespace trireme::scale
