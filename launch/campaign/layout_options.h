// SPDX-License-Identifier: Apache-2.0
// The node counts that a campaign can use, and the layout of each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/campaign/campaign_file.h"

namespace trireme::campaign {

struct LayoutOption {
  std::int64_t nodes = 1, ranks = 1;
  std::vector<std::string> settings{};  // "key=value", on top of the campaign's
  std::string text;                     // "data=4 tensor=2"
  double step_seconds = 0;              // predicted; 0: unknown
  double share = 1;                     // the busiest rank's part of a step's work
};

struct CampaignLayouts {
  std::vector<LayoutOption> options{};  // sorted by nodes, at least one
  std::int64_t steps = 0;               // train.steps
  bool any_layout = false;              // reproducibility: layout
};

// Uses the planner if the config names parallel.hardware. Otherwise more nodes are an option if the
// busiest rank then has less work: not so with 8 micro-batches in runs of 4, 2 and 2. Tries up to
// 16 node counts one by one; of more, the bounds, powers of two and 1.5 times those. Raises
// ExitCode::config if the config is wrong or no count can train it.
[[nodiscard]] CampaignLayouts campaign_layouts(const CampaignFile& file);

// "300 steps, 3 layouts, of 1 to 4 nodes".
[[nodiscard]] std::string text_of(const CampaignLayouts& layouts);

// The node counts to try.
[[nodiscard]] std::vector<std::int64_t> node_counts(std::int64_t least, std::int64_t most);

}  // namespace trireme::campaign
