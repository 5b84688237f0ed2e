// SPDX-License-Identifier: Apache-2.0
#include "runtime/config/old_keys.h"

#include <algorithm>
#include <array>

namespace trireme::config {
namespace {

constexpr std::string_view one_rank = "this version splits over data, tensor and pipeline only";
constexpr std::array removed{
    RemovedKey{"parallel.context", "1", one_rank}, RemovedKey{"parallel.expert", "1", one_rank},
    RemovedKey{"telemetry.wandb", "false", "", "scripts/export_run.py wandb RUN"},
    RemovedKey{"telemetry.mlflow", "false", "", "scripts/export_run.py mlflow RUN"}};

}  // namespace

std::span<const RemovedKey> removed_keys() {
  return removed;
}

const RemovedKey* find_removed(std::string_view key) {
  const auto found = std::ranges::find(removed, key, &RemovedKey::key);
  return found == removed.end() ? nullptr : &*found;
}

bool is_removed_section(std::string_view name) {
  return std::ranges::any_of(removed, [&](const RemovedKey& gone) {
    return gone.key.starts_with(name) && gone.key.substr(name.size()).starts_with('.');
  });
}

}  // namespace trireme::config
