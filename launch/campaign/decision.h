// SPDX-License-Identifier: Apache-2.0
// What a campaign does next: pure functions of its state, what could start, and the time.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/campaign/layout_options.h"
#include "launch/campaign/state.h"

namespace trireme::campaign {

// So many nodes could start at `place` (a partition; empty: hosts) after so many seconds.
struct Offer {
  std::string place{};
  std::int64_t nodes = 0;
  double wait_seconds = 0;
};

struct Rules {
  double node_hours = 0;        // of the whole campaign; 0: no limit
  std::optional<double> end{};  // seconds since 1970
  std::int64_t no_progress = 5;
  double backoff_seconds = 10;
  double gain = 1.3;  // 0: a running job is left alone
  double better_after_seconds = 1200;
};
[[nodiscard]] Rules rules_of(const CampaignFile& file);

struct Decision {
  enum class Action : std::uint8_t {
    submit,  // `option` at `place`
    wait,    // until `until`, or the next look
    keep,    // the job that there is
    stop,    // it, with a checkpoint; the next decision is made when it has ended
    end      // the campaign, with `outcome`
  };
  Action action = Action::wait;
  std::size_t option = 0;
  std::string place{};
  CampaignState::Outcome outcome = CampaignState::Outcome::going;
  double until = 0;
  std::string reason{};
};

// Seconds of a step: measured under the same layout on as many nodes; else predicted, times how far
// earlier predictions were off; else from the newest measurement, as if steps took the inverse of
// the nodes. Nothing where nothing is known.
[[nodiscard]] std::optional<double> expected_step(const LayoutOption& option,
                                                  const CampaignState& state);
// From the start of a job to its first step: the median of those that came so far, a minute before
// there is one.
[[nodiscard]] double restart_seconds(const CampaignState& state);

// Without a job. Of the offers the one whose layout would be done first counts; of those that the
// budget cannot pay to the end, the one that needs the fewest node-hours. `step`: of the newest
// checkpoint.
[[nodiscard]] Decision decide_next(const CampaignState& state,
                                   std::span<const LayoutOption> options,
                                   std::span<const Offer> offers, const Rules& rules,
                                   std::int64_t step, double now);

// With one. `offers` are what could start at once if the job were gone.
[[nodiscard]] Decision decide_running(const CampaignState& state,
                                      std::span<const LayoutOption> options,
                                      std::span<const Offer> offers, const Rules& rules,
                                      std::int64_t step, double now);

// Seconds that a job of so many nodes may take at most by the campaign's budget and end; nothing
// where there is neither.
[[nodiscard]] std::optional<double> seconds_allowed(const CampaignState& state, const Rules& rules,
                                                    std::int64_t nodes, double now);

}  // namespace trireme::campaign
