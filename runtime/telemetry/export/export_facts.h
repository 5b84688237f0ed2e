// SPDX-License-Identifier: Apache-2.0
// Facts of a run, besides its metrics, in files for other tools.
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
  std::optional<std::int64_t> done{};                       // steps before a resumed run
  std::string config{};                                     // YAML
  std::vector<std::pair<std::string, std::string>> keys{};  // "train.steps", "1000"
  std::string command_line{};
  std::chrono::system_clock::time_point start{};
  // Time between flushes: the most that a kill may lose.
  std::chrono::milliseconds flush_every = std::chrono::seconds(10);
};

}  // namespace trireme
