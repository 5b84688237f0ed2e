// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "launch/plan/layout_search.h"
#include "models/config.h"

namespace trireme {
namespace {

std::map<std::string, std::string> values_of(const Config& config) {
  const auto values = values_by_key(config);
  return {values.begin(), values.end()};
}

}  // namespace

LayoutChoice choice_of(const Config& config) {
  const ParallelConfig& parallel = config.parallel;
  return {.data = parallel.data,
          .tensor = parallel.tensor,
          .pipeline = parallel.pipeline,
          .chunks = parallel.chunks,
          .zero = parallel.zero,
          .micro_batch = config.train.micro_batch,
          .zero_group = parallel.zero_group,
          .expert = parallel.expert_data_ranks() > 1 ? parallel.expert : 0,
          .context = parallel.context,
          .sequence = parallel.sequence,
          .schedule = parallel.schedule,
          .recompute = config.train.recompute,
          .spatial = parallel.spatial};
}

Config with_layout(Config config, const LayoutChoice& choice) {
  ParallelConfig& parallel = config.parallel;
  parallel.search = false;
  parallel.data = choice.data;
  parallel.tensor = choice.tensor;
  parallel.expert = choice.expert;
  parallel.spatial = choice.spatial;
  if (config.reproducibility != Reproducibility::layout) parallel.spatial_slabs.clear();
  parallel.context = choice.context;
  if (config.reproducibility != Reproducibility::layout) parallel.context_blocks = 0;
  if (parallel.context == 1 && parallel.context_blocks <= 1)
    parallel.context_mode = ContextMode::automatic;
  parallel.pipeline = choice.pipeline;
  parallel.chunks = choice.chunks;
  parallel.zero = choice.zero;
  parallel.zero_group = choice.zero_group;
  parallel.sequence = choice.sequence;
  parallel.schedule = choice.schedule;
  parallel.stage_layers.clear();
  config.train.micro_batch = choice.micro_batch;
  config.train.recompute = choice.recompute;
  return config;
}

int distance(const LayoutChoice& a, const LayoutChoice& b) {
  return (a.data != b.data) + (a.tensor != b.tensor) + (a.pipeline != b.pipeline) +
         (a.chunks != b.chunks) + (a.zero != b.zero) + (a.zero_group != b.zero_group) +
         (a.expert != b.expert) + (a.context != b.context) + (a.micro_batch != b.micro_batch) +
         (a.sequence != b.sequence) + (a.spatial != b.spatial) + (a.schedule != b.schedule) +
         (a.recompute != b.recompute);
}

std::vector<std::string> changed_settings(const Config& given, const Config& changed) {
  const auto before = values_by_key(given), after = values_by_key(changed);
  std::vector<std::string> settings;
  for (std::size_t i = 0; i < after.size(); ++i)
    if (after[i] != before[i])
      settings.push_back(fmt::format("{}={}", after[i].first, after[i].second));
  return settings;
}

std::string as_flags(const Config& given, const LayoutChoice& choice) {
  std::vector<std::string> keys{"parallel.data", "parallel.tensor",   "parallel.pipeline",
                                "parallel.zero", "train.micro_batch", "train.recompute"};
  if (choice.tensor > 1) keys.emplace_back("parallel.sequence");
  if (choice.pipeline > 1) keys.emplace_back("parallel.schedule");
  if (choice.chunks > 1) keys.emplace_back("parallel.chunks");
  const auto before = values_of(given), after = values_of(with_layout(given, choice));
  for (const auto& [key, value] : after) {
    if (before.at(key) != value && std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
  }
  std::string flags;
  for (const std::string& key : keys) {
    const std::string& value = after.at(key);
    const std::string_view quote = value.starts_with('[') ? "'" : "";  // a shell splits lists
    flags += fmt::format("{}--set {}{}={}{}", flags.empty() ? "" : " ", quote, key, value, quote);
  }
  return flags;
}

}  // namespace trireme
