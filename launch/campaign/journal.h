// SPDX-License-Identifier: Apache-2.0
// A campaign's output: the terminal, DIRECTORY/campaign.log, and a status page.
#pragma once

#include <string>

#include "launch/campaign/state.h"

namespace trireme::campaign {

class Journal {
 public:
  explicit Journal(std::string directory) : directory_(std::move(directory)) {}

  // A line with the time. Write errors are ignored: the disk may be full.
  void note(const std::string& text);
  // Writes DIRECTORY/status.html if it changed.
  void show(const CampaignState& state, double now);

 private:
  std::string directory_, shown_{};
};

// For `trireme campaign status` and the end of a campaign.
[[nodiscard]] std::string status_text(const CampaignState& state, const std::string& directory,
                                      double now);
[[nodiscard]] std::string status_html(const CampaignState& state, const std::string& directory,
                                      double now);
// "goodput 83.1 %: 12.30 of 14.80 node-hours were steps that count; ..."
[[nodiscard]] std::string goodput_text(const CampaignState& state, double now);

// Seconds since 1970.
[[nodiscard]] double wall_clock();

}  // namespace trireme::campaign
