// SPDX-License-Identifier: Apache-2.0
// Which numbers of nodes a campaign can use, and under which layout each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/campaign/campaign_file.h"

namespace trireme::campaign {

struct LayoutOption {
  std::int64_t nodes = 1, ranks = 1;
  std::vector<std::string> settings{};  // "key=value", over those of the campaign
  std::string text;                     // "data=4 tensor=2"
  double step_seconds = 0;              // predicted; 0: not known
  double share = 1;                     // of a step's work, what the rank has that has most
};

struct CampaignLayouts {
  std::vector<LayoutOption> options{};  // by nodes, at least one
  std::int64_t steps = 0;               // train.steps
  bool any_layout = false;              // reproducibility: layout
};

// By the planner where the config names parallel.hardware. Elsewhere more nodes are an option where
// the busiest rank then has less to do: with 8 micro-batches in runs of 4, 2 and 2 it has not. Up
// to 16 numbers of nodes are tried one by one, of more the bounds, powers of two and one and a half
// times those. Raises ExitCode::config where the config is wrong, or none of them can train it.
[[nodiscard]] CampaignLayouts campaign_layouts(const CampaignFile& file);

// "300 steps, 3 layouts, of 1 to 4 nodes".
[[nodiscard]] std::string text_of(const CampaignLayouts& layouts);

// The numbers of nodes that are tried.
[[nodiscard]] std::vector<std::int64_t> node_counts(std::int64_t least, std::int64_t most);

}  // namespace trireme::campaign
