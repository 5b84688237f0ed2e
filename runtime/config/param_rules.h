// SPDX-License-Identifier: Apache-2.0
// How parameters differ in training, by patterns over their names: train.freeze, optimizer.groups
// and optimizer.layer_decay.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// * stands for any characters, also dots; ? for one; [ab] for one of these.
[[nodiscard]] bool name_matches(const std::string& pattern, const std::string& name);

// The words nearest to a pattern that matches none of `names`: ": did you mean X?" or the first
// parts of the names.
[[nodiscard]] std::string near_names(const std::string& pattern,
                                     std::span<const std::string> names);
// The first of `patterns` that matches none of `names`; nullptr if all do.
[[nodiscard]] const std::string* unmatched(std::span<const std::string> patterns,
                                           std::span<const std::string> names);

struct ParamGroup {
  std::string pattern;
  float rate = 1;              // share of the learning rate, and so of the decay, above 0
  std::optional<float> decay;  // share of the weight decay; none: 1, or 0 where nothing decays
};

// Parses "PATTERN: rate=0.1 decay=0" texts; writes errors to `problem`.
[[nodiscard]] std::vector<ParamGroup> param_groups(std::span<const std::string> texts,
                                                   std::string& problem);

struct ParamRules {
  std::vector<std::string> frozen{};  // patterns
  std::vector<std::string> beside{};  // patterns of what trains whole beside adapters
  std::vector<ParamGroup> groups{};
  // A block's learning rate as a share of the next one's; that behind the last block has all of it
  // (Bao et al., BEiT, 2022).
  float layer_decay = 1;

  // `adapted`: the model has adapters, and this is none of their factors.
  [[nodiscard]] bool freezes(const std::string& name, bool adapted = false) const;
  // The last group with the name; nullptr: none.
  [[nodiscard]] const ParamGroup* group_of(const std::string& name) const;
};
// The linear layer with this target of an adapter: "qkv" of "query", else the target itself.
[[nodiscard]] std::string_view whole_of(std::string_view target);

struct Config;
// Of a checked config.
[[nodiscard]] ParamRules param_rules(const Config& config);

}  // namespace trireme
