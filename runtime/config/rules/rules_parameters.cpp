// SPDX-License-Identifier: Apache-2.0
// Patterns over the model's parameters: what is frozen, grouped and initialised anew.
#include <algorithm>

#include "runtime/config/param_rules.h"
#include "runtime/config/rules/rules.h"

namespace trireme::config {
namespace {

void require_matches(const Subject& subject, std::string_view key,
                     const std::vector<std::string>& patterns,
                     const std::vector<std::string>& names, std::string_view what) {
  if (const std::string* const pattern = unmatched(patterns, names))
    refuse(subject, key, "\"{}\" matches no {}; {}", *pattern, what, near_names(*pattern, names));
}

void check_frozen(const Subject& subject) {
  const Config& config = subject.config;
  constexpr std::string_view key = "train.freeze";
  const std::vector<std::string>& names = subject.limits.parameters;
  if (config.train.freeze.empty()) return;
  require_matches(subject, key, config.train.freeze, names, "weight of the model");
  const ParamRules rules = param_rules(config);
  if (std::ranges::all_of(names, [&](const std::string& name) { return rules.freezes(name); }))
    refuse(subject, key, "freezes every weight of the model; leave out what is to be trained");
}

// The weights that are trained: with adapters their factors.
std::vector<std::string> trained_names(const Subject& subject) {
  const Config& config = subject.config;
  const ParamRules rules = param_rules(config);
  std::vector<std::string> names;
  for (const std::string& name : subject.limits.parameters) {
    if (!rules.freezes(name, config.lora.rank > 0)) names.push_back(name);
    if (config.lora.rank == 0 || !name.ends_with(".weight")) continue;
    const std::string layer = name.substr(0, name.rfind('.') + 1);
    for (const std::string& target : config.lora.targets) {
      const std::string whole(whole_of(target)), path = "." + whole + ".";
      if (!layer.ends_with(path)) continue;
      const std::string part = whole == target ? layer : layer + target + ".";
      names.push_back(part + "lora_a");
      names.push_back(part + "lora_b");
    }
  }
  return names;
}

void check_groups(const Subject& subject) {
  const OptimizerConfig& optimizer = subject.config.optimizer;
  const bool grouped = !optimizer.groups.empty(), decays = optimizer.layer_decay != 1;
  if (!grouped && !decays) return;
  const std::string_view key = grouped ? "optimizer.groups" : "optimizer.layer_decay";
  if (!traits_of(optimizer.name).groups)
    refuse(subject, key,
           "with optimizer.name: {}, which sets each tensor's step by its norms alone; use another "
           "optimizer, or leave it out",
           traits_of(optimizer.name).name);
  if (decays && subject.limits.blocks == 0)
    refuse(subject, "optimizer.layer_decay", "{} with model.family: {}, which has no blocks; use 1",
           optimizer.layer_decay, subject.config.model.family);
  std::string problem;
  std::vector<std::string> patterns;
  for (const ParamGroup& group : param_groups(optimizer.groups, problem))
    patterns.push_back(group.pattern);
  if (!problem.empty()) refuse(subject, "optimizer.groups", "{}", problem);
  require_matches(subject, "optimizer.groups", patterns, trained_names(subject), "trained weight");
}

void check_initial(const Subject& subject) {
  const TrainConfig& train = subject.config.train;
  for (const auto& [key, patterns] :
       {std::pair{"train.initial_skip", &train.initial_skip},
        std::pair{"train.initial_reinitialise", &train.initial_reinitialise}}) {
    if (!patterns->empty() && train.initial_weights.empty())
      refuse(subject, key, "has no effect without train.initial_weights; leave it out");
  }
  require_matches(subject, "train.initial_reinitialise", train.initial_reinitialise,
                  subject.limits.parameters, "weight of the model");
  require_matches(subject, "lora.modules_to_save", subject.config.lora.modules_to_save,
                  subject.limits.parameters, "weight of the model");
}

}  // namespace

void check_parameters(const Subject& subject) {
  check_frozen(subject);
  check_groups(subject);
  check_initial(subject);
}

}  // namespace trireme::config
