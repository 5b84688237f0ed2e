// SPDX-License-Identifier: Apache-2.0
// What an ablation is to run: cells (variant, seed) of one base config. Nothing here starts
// anything.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/registry.h"
#include "runtime/config/config.h"

namespace trireme::ablate {

// The number that variants are compared by; less is better.
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

// Successive halving (Jamieson and Talwalkar, 2016): after so many steps the worst variants are
// stopped.
struct Halving {
  std::vector<std::int64_t> at;  // steps, ascending; none: every variant runs to its end
  double keep = 0.5;             // of the variants that are left beside the base
};

struct Study {
  std::string file, config;            // paths of the study and of its base
  std::vector<std::string> overrides;  // of every cell: the study's `set`, then --set
  int ranks = 1;
  std::vector<std::uint64_t> seeds;
  std::vector<Variant> variants;  // the base first
  // The prefix runs with the base's values up to here, and each variant with its own from the next
  // step on; 0: each has its own from its first step.
  std::int64_t fork_step = 0;
  std::int64_t share_from = 10;  // shorter prefixes are not shared; 0: none is
  Halving halving;
  Metric metric = Metric::training_loss;
  std::int64_t last_losses = 20;
  double price_per_rank_hour = 0;  // in any currency; 0: cost is told in rank hours alone
  ModelTraits traits;
  std::string launcher{};  // "mpirun --host a:4,b:4"; for the reports
  // What makes it this study, for a directory that holds another one.
  std::vector<std::pair<std::string, std::string>> identity{};

  [[nodiscard]] const Variant& base() const { return variants.front(); }
  [[nodiscard]] std::int64_t steps_of(std::size_t variant) const {
    return variants[variant].config.train.steps;
  }
  // Arguments of `trireme` for the training of `variant` with `seed` up to step `until` in
  // `directory`: with the base's values where that is within the fork's prefix.
  [[nodiscard]] std::vector<std::string> arguments(std::size_t variant, std::uint64_t seed,
                                                   std::int64_t until,
                                                   const std::string& directory) const;
};

// Reads FILE (launch/study/ablate/README.md has its keys), draws what is random, and checks every
// variant as the runs will. Raises ExitCode::config with "file:line: key: ..." before anything is
// started.
[[nodiscard]] Study read_study(const std::string& path, const std::vector<std::string>& overrides);

// Whether a key may differ between variants that continue one checkpoint, as it acts on each step
// by itself: "" if so, else why not.
[[nodiscard]] std::string_view refuses_fork(std::string_view key);
// Patterns of those that may, for messages.
[[nodiscard]] std::string fork_keys_text();

}  // namespace trireme::ablate
