// SPDX-License-Identifier: Apache-2.0
// Arguments of `trireme plan`, and the part of it that draws schedules.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

struct PlanArguments {
  std::string config;
  std::vector<std::string> overrides;
  std::optional<int> ranks;
  // Memory, time and search.
  std::string hardware;
  std::string slice;  // a MIG profile
  std::optional<int> nodes;
  bool search = false;
  double budget = 0;
  std::string json;
  std::string generate;  // BATCHxTOKENS
  // The schedule. Without a config these define the pipeline; with one they override its values.
  bool print_schedule = false;
  std::optional<int> stages, micro_batches, chunks;
  std::optional<std::string> schedule;
  std::optional<std::size_t> width;
};

void print_schedule(const PlanArguments& arguments);

}  // namespace trireme
