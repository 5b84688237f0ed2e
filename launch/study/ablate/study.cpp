// SPDX-License-Identifier: Apache-2.0
#include "launch/study/ablate/study.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "launch/engine/data_sets.h"
#include "launch/plan/layout_plan.h"
#include "launch/study/ablate/study_file.h"
#include "models/config.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/config/batch_ramp.h"
#include "runtime/config/key_table.h"

namespace trireme::ablate {
namespace {

// Searched in the current directory, then beside the study's file.
std::string base_path(const StudyFile& file) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::exists(file.base, error)) return file.base;
  const fs::path beside = fs::path(file.study.file).parent_path() / file.base;
  if (fs::exists(beside, error)) return beside.lexically_normal().string();
  fail(ExitCode::config, "{}: {}: no such file, here or beside {}", file.place_of("base"),
       file.base, file.study.file);
}

std::vector<std::string> with_seed(std::vector<std::string> settings, std::uint64_t seed) {
  settings.push_back(fmt::format("run.seed={}", seed));
  return settings;
}

// As in its runs, except for values that depend on their hosts.
Config checked(const Study& study, const Variant& variant) {
  std::vector<std::string> settings = study.overrides;
  settings.insert(settings.end(), variant.settings.begin(), variant.settings.end());
  settings = with_seed(std::move(settings), study.seeds.front());
  return with_context(fmt::format("{}: variant {}", variant.place, variant.name), [&] {
    Provenance where;
    Config config = load_config(study.config, settings, &where);
    settle_epochs(config, where);
    if (config.train.stop_at.given())
      fail(ExitCode::config,
           "{}: would end some runs before the others, and they are compared at equal steps; set "
           "train.stop_at={{}}",
           where.describe("train.stop_at"));
    return resolve_config(config, planned_environment(study.ranks), &where);
  });
}

// A grid may contain the base's own values; they are not trained twice.
void drop_copies(Study& study) {
  std::vector<Variant> kept;
  for (Variant& variant : study.variants) {
    const auto same = std::ranges::find(kept, variant.config, &Variant::config);
    if (same == kept.end()) {
      kept.push_back(std::move(variant));
    } else {
      log::get("ablate").info("{} has the same values as {} and is not trained twice", variant.name,
                              same->name);
    }
  }
  study.variants = std::move(kept);
  if (study.variants.size() == 1)
    fail(ExitCode::config, "{}: every variant has the base's values; change one", study.file);
}

std::vector<std::string> differing_keys(const Config& one, const Config& other) {
  const KeyValues a = values_by_key(one), b = values_by_key(other);
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].second != b[i].second) keys.push_back(a[i].first);
  return keys;
}

void check_fork(const Study& study, const StudyFile& file) {
  if (study.fork_step == 0) return;
  for (const Variant& variant : study.variants) {
    if (variant.config.train.steps <= study.fork_step)
      fail(ExitCode::config, "{}: step {} is not before the end of {}, train.steps = {}",
           file.place_of("fork_step"), study.fork_step, variant.name, variant.config.train.steps);
    for (const std::string& key : differing_keys(study.base().config, variant.config)) {
      const std::string_view reason = refuses_fork(key);
      if (reason.empty()) continue;
      fail(ExitCode::config,
           "{}: {} cannot change after step {} (fork_step): {}; remove fork_step, then every "
           "variant has its values from the first step on, or change only keys that act on each "
           "step by itself, such as optimizer.learning_rate",
           variant.place, key, study.fork_step, reason);
    }
    if (variant.config.optimizer.moments() != study.base().config.optimizer.moments())
      fail(ExitCode::config,
           "{}: optimizer.momentum: {} and {} keep different state, but fork_step = {} continues "
           "one state; remove fork_step",
           variant.place, study.base().config.optimizer.momentum, variant.config.optimizer.momentum,
           study.fork_step);
  }
}

bool evaluates(const Config& config) {
  return config.data.has_validation();
}

Metric metric_of(const Study& study, const StudyFile& file) {
  const auto without = std::ranges::find_if_not(
      study.variants, [](const Variant& variant) { return evaluates(variant.config); });
  const bool all = without == study.variants.end();
  if (file.metric == "validation_loss" && !all)
    fail(ExitCode::config,
         "{}: {} has no validation data; set data.validation_path, or metric: training_loss",
         file.place_of("metric"), without->name);
  if (file.metric.empty()) return all ? Metric::validation_loss : Metric::training_loss;
  return file.metric == "validation_loss" ? Metric::validation_loss : Metric::training_loss;
}

void check_halving(const Study& study, const StudyFile& file) {
  std::int64_t longest = 0;
  for (const Variant& variant : study.variants)
    longest = std::max(longest, variant.config.train.steps);
  for (const std::int64_t step : study.halving.at) {
    if (step >= longest)
      fail(ExitCode::config, "{}: step {} is not before the end, train.steps = {}",
           file.place_of("halving"), step, longest);
    if (study.metric != Metric::validation_loss) continue;
    for (const Variant& variant : study.variants) {
      if (evaluation_is_due(variant.config.train, step)) continue;
      fail(ExitCode::config,
           "{}: {} is not evaluated at step {} (train.eval_every = {}); give steps that are "
           "multiples of it, or metric: training_loss",
           file.place_of("halving"), variant.name, step, variant.config.train.eval_every);
    }
  }
}

std::string lines_of(const std::vector<Variant>& variants) {
  std::string text;
  for (const Variant& variant : variants)
    text += fmt::format("{}: {}\n", variant.name, fmt::join(variant.settings, " "));
  return text;
}

}  // namespace

std::string_view name_of(Metric metric) {
  return metric == Metric::validation_loss ? "validation_loss" : "training_loss";
}

std::string_view refuses_fork(std::string_view key) {
  using config::Effect;
  const config::Field* const row = key_table().find(key);
  switch (row == nullptr ? Effect::history : row->effect()) {
    case Effect::step:
      return {};
    case Effect::place:
    case Effect::report:
      if (const auto section = row->section();
          section == "train" || section == "checkpoint" || section == "telemetry")
        return {};
      return "variants share their data, device and ranks";
    case Effect::extent:
      return "it decides where a run starts or ends";
    case Effect::samples:
      return "it decides the order of the samples";
    case Effect::state:
    case Effect::function:
      return "it decides what the state contains";
    case Effect::rounding:
    case Effect::layout:
      return "it belongs to the layout, which variants share";
    case Effect::history:
      break;
  }
  return "it may act on more than one step";
}

std::vector<std::string> Study::arguments(std::size_t variant, std::uint64_t seed,
                                          std::int64_t until, const std::string& directory) const {
  const Variant& whose = until <= fork_step ? base() : variants[variant];
  std::vector<std::string> settings = overrides;
  settings.insert(settings.end(), whose.settings.begin(), whose.settings.end());
  settings = with_seed(std::move(settings), seed);
  settings.push_back("run.directory=" + directory);
  std::vector<std::string> words{"train", config};
  for (const std::string& setting : settings)
    words.insert(words.end(), {"--set", setting});
  if (until < whose.config.train.steps)
    words.insert(words.end(), {"--until", fmt::format("{}", until)});
  return words;
}

Study read_study(const std::string& path, const std::vector<std::string>& overrides) {
  const StudyFile file = read_study_file(path);
  Study study = file.study;
  study.config = base_path(file);
  study.ranks = static_cast<int>(file.ranks);
  study.variants = variants_of(file);
  study.overrides.insert(study.overrides.end(), overrides.begin(), overrides.end());
  for (Variant& variant : study.variants)
    variant.config = checked(study, variant);
  drop_copies(study);
  check_fork(study, file);
  study.metric = metric_of(study, file);
  check_halving(study, file);
  study.traits = traits_of(study.base().config.model);
  study.identity = {
      {"base and set", to_yaml(study.base().config)},
      {"variants", lines_of(study.variants)},
      {"ranks", fmt::format("{}", study.ranks)},
      {"seeds", fmt::format("{}", fmt::join(study.seeds, ","))},
      {"fork_step", fmt::format("{}", study.fork_step)},
      {"share_from", fmt::format("{}", study.share_from)},
      {"halving", fmt::format("{} keep {}", fmt::join(study.halving.at, ","), study.halving.keep)},
      {"metric", fmt::format("{} {}", name_of(study.metric), study.last_losses)}};
  return study;
}

}  // namespace trireme::ablate
