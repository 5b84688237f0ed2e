// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "launch/plan/report.h"

namespace trireme {
namespace {

// As RowExchange::plan(): divisors of the group.
int rounds_of(std::int64_t rows, const ExpertMessages& experts, int ranks) {
  int rounds = 1;
  while (rounds < ranks && (ranks % rounds != 0 || rows > experts.capacity * rounds))
    ++rounds;
  return rounds;
}

}  // namespace

std::optional<ExpertRows> expert_rows(const Config& config) {
  const plan::StepInput input = StepPlanner().declared(config);
  const auto has_experts = [](const LayerSummary& layer) { return layer.traffic.experts.rows > 0; };
  const auto first = std::ranges::find_if(input.layers, has_experts);
  if (first == input.layers.end()) return std::nullopt;
  const ExpertMessages& experts = first->traffic.experts;
  ExpertRows found{.layers = std::ranges::count_if(input.layers, has_experts),
                   .ranks = input.build.experts.split.ranks,
                   .imbalance = config.parallel.expert_imbalance,
                   .held = experts};
  found.assumed =
      found.ranks == 1
          ? experts.rows
          : std::min(experts.most, static_cast<std::int64_t>(std::ceil(
                                       found.imbalance * static_cast<double>(experts.rows))));
  found.rounds = rounds_of(found.assumed, experts, found.ranks);
  return found;
}

std::string ExpertRows::assumption() const {
  return imbalance == 1 ? "balanced routing assumed (parallel.expert_imbalance: 1)"
                        : fmt::format("parallel.expert_imbalance: {} assumed", imbalance);
}

std::string describe(const ExpertRows& rows) {
  const ExpertMessages& held = rows.held;
  std::string text = fmt::format(
      "experts of {} layers over {} rank(s), {}; rows that a rank receives per layer and "
      "micro-batch:\n",
      rows.layers, rows.ranks, rows.assumption());
  const auto add = [&](std::string_view name, std::int64_t count, std::string_view remark) {
    const auto bytes = static_cast<std::uint64_t>(count);
    text += fmt::format("  {:<12} {:>9}: {} kept for backward, {} scratch{}\n", name, count,
                        size_text(bytes * held.kept_bytes), size_text(bytes * held.scratch_bytes),
                        remark);
  };
  add("even load", held.rows, "");
  if (rows.imbalance > 1)
    add("assumed", rows.assumed, fmt::format(", in {} round(s)", rows.rounds));
  add("memory", held.capacity,
      ", by parallel.expert_capacity_factor; more rows take further rounds");
  add("worst case", held.most, "");
  return text;
}

}  // namespace trireme
