// SPDX-License-Identifier: Apache-2.0
// What files for other tools say of a run beside its metrics.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/telemetry/metrics.h"

namespace trireme {

struct ExportFacts {
  std::string directory{};  // of the run; exists
  std::string name{};       // run.directory as the user wrote it
  ItemKind items = ItemKind::tokens;
  std::optional<std::int64_t> done{};                       // steps, of a run that goes on
  std::string config{};                                     // YAML
  std::vector<std::pair<std::string, std::string>> keys{};  // "train.steps", "1000"
  std::string command_line{};
  std::chrono::system_clock::time_point start{};
  // Between flushes: what a kill may lose.
  std::chrono::milliseconds flush_every = std::chrono::seconds(10);
};

}  // namespace trireme
