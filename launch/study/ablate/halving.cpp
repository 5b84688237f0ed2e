// SPDX-License-Identifier: Apache-2.0
#include "launch/study/ablate/halving.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace trireme::ablate {
namespace {

struct Ranked {
  std::size_t variant = 0;
  double mean = std::numeric_limits<double>::infinity();
};

Ranked rank(const Standing& standing) {
  double sum = 0;
  int count = 0;
  for (const auto& difference : standing.differences) {
    if (!difference) continue;
    sum += *difference;
    ++count;
  }
  Ranked ranked{.variant = standing.variant};
  if (count > 0 && std::isfinite(sum)) ranked.mean = sum / count;
  return ranked;
}

}  // namespace

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
