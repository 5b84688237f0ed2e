// SPDX-License-Identifier: Apache-2.0
// The plan of an ablation: cells (variant, seed) of one base config. Starts nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/registry.h"
#include "runtime/config/config.h"

namespace trireme::ablate {

// The metric that compares variants; less is better.
enum class Metric : std::uint8_t {
  validation_loss,  // of the last evaluation
  training_loss     // mean over the last Study::last_losses steps
};
[[nodiscard]] std::string_view name_of(Metric metric);

struct Variant {
  std::string name;                   // "learning_rate=2e-3,lr_schedule=wsd"; the first is "base"
  std::vector<std::string> settings;  // "key=value", beyond the base; the base has none
  std::string place{};                // "study.yaml:7: variants.list.plain"
  Config config{};                    // as resolved for Study::ranks, with the first seed
};

// Successive halving (Jamieson and Talwalkar, 2016): stops the worst variants after given steps.
struct Halving {
  std::vector<std::int64_t> at;  // steps, ascending; none: every variant runs to its end
  double keep = 0.5;             // fraction of the remaining variants, without the base
};

struct Study {
  std::string file, config;            // paths of the study and of its base
  std::vector<std::string> overrides;  // for every cell: the study's `set`, then --set
  int ranks = 1;
  std::vector<std::uint64_t> seeds;
  std::vector<Variant> variants;  // the base first
  // Up to this step the prefix runs with the base's values; each variant uses its own from the next
  // step on. 0: each variant uses its own from the first step.
  std::int64_t fork_step = 0;
  std::int64_t share_from = 10;  // shorter prefixes are not shared; 0: none is
  Halving halving;
  Metric metric = Metric::training_loss;
  std::int64_t last_losses = 20;
  double price_per_rank_hour = 0;  // in any currency; 0: cost is given in rank hours only
  ModelTraits traits;
  std::string launcher{};  // "mpirun --host a:4,b:4"; for the reports
  // Identifies this study in a directory; another study is refused.
  std::vector<std::pair<std::string, std::string>> identity{};

  [[nodiscard]] const Variant& base() const { return variants.front(); }
  [[nodiscard]] std::int64_t steps_of(std::size_t variant) const {
    return variants[variant].config.train.steps;
  }
  // Arguments of `trireme` that train `variant` with `seed` up to step `until` in `directory`;
  // within the fork's prefix, with the base's values.
  [[nodiscard]] std::vector<std::string> arguments(std::size_t variant, std::uint64_t seed,
                                                   std::int64_t until,
                                                   const std::string& directory) const;
};

// Reads FILE (keys: launch/study/ablate/README.md), draws random values, and checks every variant
// as its runs will. Raises ExitCode::config with "file:line: key: ..." before anything starts.
[[nodiscard]] Study read_study(const std::string& path, const std::vector<std::string>& overrides);

// Whether variants that continue one checkpoint may differ in a key, because it acts on each step
// separately: "" if so, else the reason.
[[nodiscard]] std::string_view refuses_fork(std::string_view key);

}  // namespace trireme::ablate
