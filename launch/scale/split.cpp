// SPDX-License-Identifier: Apache-2.0
#include "launch/scale/split.h"

#include <algorithm>

namespace trireme::scale {
namespace {

std::array<double, loss_count> in_order(const StepParts& parts) {
  return {parts.exposed_comm, parts.bubble, parts.data_wait, parts.straggler, parts.compute};
}

StepParts mean_of(const StepParts& a, const StepParts& b) {
  return {.period = (a.period + b.period) / 2,
          .compute = (a.compute + b.compute) / 2,
          .data_wait = (a.data_wait + b.data_wait) / 2,
          .bubble = (a.bubble + b.bubble) / 2,
          .straggler = (a.straggler + b.straggler) / 2,
          .exposed_comm = (a.exposed_comm + b.exposed_comm) / 2};
}

Row summarise(const PointResult& result) {
  Row row{.point = result.point, .runs = result.runs};
  std::vector<const RunResult*> good;
  for (const auto& run : result.runs) {
    if (run && run->code == 0) good.push_back(&*run);
  }
  row.good = static_cast<int>(good.size());
  if (good.empty()) return row;
  std::ranges::sort(good, {}, [](const RunResult* run) { return run->parts.period; });
  const RunResult& lower = *good[(good.size() - 1) / 2];
  const RunResult& upper = *good[good.size() / 2];
  row.parts = mean_of(lower.parts, upper.parts);
  row.slowest_rank = upper.slowest_rank;
  row.place = upper.place;
  const auto batch = static_cast<double>(row.point.global_batch);
  row.samples_per_second = {.median = batch / row.parts.period,
                            .min = batch / good.back()->parts.period,
                            .max = batch / good.front()->parts.period};
  return row;
}

Row::Loss loss_of(const Row& row, const Row& base) {
  const double k = static_cast<double>(row.point.global_batch) /
                   static_cast<double>(base.point.global_batch) * base.point.ranks() /
                   row.point.ranks();
  Row::Loss loss;
  loss.ideal = k * base.parts.period;
  loss.gap = row.parts.period - loss.ideal;
  const auto own = in_order(row.parts), of_base = in_order(base.parts);
  for (std::size_t i = 0; i < loss_count; ++i)
    loss.parts[i] = own[i] - k * of_base[i];
  const double ideal_rate = static_cast<double>(row.point.global_batch) / loss.ideal;
  loss.efficiency = {.median = row.samples_per_second.median / ideal_rate,
                     .min = row.samples_per_second.min / ideal_rate,
                     .max = row.samples_per_second.max / ideal_rate};
  return loss;
}

}  // namespace

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
