// SPDX-License-Identifier: Apache-2.0
#include "models/function_differences.h"

#include <algorithm>
#include <array>

#include "models/config.h"
#include "models/registry.h"

namespace trireme {
namespace {

constexpr std::array<std::string_view, 4> of_training = {"model.dropout", "model.init_std",
                                                         "model.mask_share", "model.position_init"};

ModelConfig spelled(ModelConfig model) {
  if (const auto spell = family_of(model).exchange->spell) spell(model);
  return model;
}

}  // namespace

std::vector<FunctionDifference> function_differences(const ModelConfig& ours,
                                                     const ModelConfig& theirs) {
  if (ours.family != theirs.family) return {{"model.family", ours.family, theirs.family}};
  Config left = default_config(), right = default_config();
  left.model = spelled(ours);
  right.model = spelled(theirs);
  const KeyValues wanted = values_by_key(left), found = values_by_key(right);
  std::vector<FunctionDifference> differences;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto& [key, value] = wanted[i];
    if (key.starts_with("model.") && value != found[i].second &&
        std::ranges::find(of_training, key) == of_training.end())
      differences.push_back({key, value, found[i].second});
  }
  return differences;
}

}  // namespace trireme
