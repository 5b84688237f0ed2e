// SPDX-License-Identifier: Apache-2.0
// A campaign's next action: pure functions of its state, the offers and the time.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/campaign/layout_options.h"
#include "launch/campaign/state.h"

namespace trireme::campaign {

// `nodes` could start at `place` (a partition; empty: hosts) after `seconds`.
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
  double gain = 1.3;  // 0: a running job is never stopped
  double better_after_seconds = 1200;
};
[[nodiscard]] Rules rules_of(const CampaignFile& file);

struct Decision {
  enum class Action : std::uint8_t {
    submit,  // `option` at `place`
    wait,    // until `until`, or the next poll
    keep,    // the current job
    stop,    // the job, with a checkpoint; the next decision follows its end
    end      // the campaign, with `outcome`
  };
  Action action = Action::wait;
  std::size_t option = 0;
  std::string place{};
  CampaignState::Outcome outcome = CampaignState::Outcome::going;
  double until = 0;
  std::string reason{};
};

// Seconds per step: measured under the same layout and node count; else predicted, times the
// correction of earlier predictions; else the newest measurement scaled by the inverse of the
// nodes. Empty if nothing is known.
[[nodiscard]] std::optional<double> expected_step(const LayoutOption& option,
                                                  const CampaignState& state);
// From the start of a job to its first step: the median so far, or one minute.
[[nodiscard]] double restart_seconds(const CampaignState& state);

// Without a job. Takes the offer that finishes first; if the budget cannot pay any to the end, the
// one with the fewest node-hours. `step`: of the newest checkpoint.
[[nodiscard]] Decision decide_next(const CampaignState& state,
                                   std::span<const LayoutOption> options,
                                   std::span<const Offer> offers, const Rules& rules,
                                   std::int64_t step, double now);

// With a job. `offers` are what could start at once if the job ended.
[[nodiscard]] Decision decide_running(const CampaignState& state,
                                      std::span<const LayoutOption> options,
                                      std::span<const Offer> offers, const Rules& rules,
                                      std::int64_t step, double now);

// The most seconds that a job on `nodes` may take by the campaign's budget and end; empty if there
// is neither.
[[nodiscard]] std::optional<double> seconds_allowed(const CampaignState& state, const Rules& rules,
                                                    std::int64_t nodes, double now);

}  // namespace trireme::campaign
