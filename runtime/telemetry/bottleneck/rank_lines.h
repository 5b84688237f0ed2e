// SPDX-License-Identifier: Apache-2.0
// Lines of ranks.jsonl: the start of a run, each rank's times in windows of steps, its end. Written
// by rank 0 (rank_log.h), read by all reports on time (run_fold.h).
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/telemetry/bottleneck/bottleneck.h"

namespace trireme {

// {"start":"2026-11-22T12:01:02.345Z","step":100,"lost_steps":20,"lost_s":1.5,"ranks":4,
// "hosts":["n1",..],"mesh":{..},"facts":{..}}
struct RunStart {
  std::int64_t step = 0;             // steps of earlier starts
  LostSteps lost{};                  // of these, lost after that step
  std::vector<std::string> hosts{};  // by rank
  RunFacts facts{};
  std::chrono::system_clock::time_point time{};
};

// {"steps":[1,40],"timestamp":"..","split":{..},"within":{..},"by_rank":{"period_ms":[..],..}}
// All are milliseconds of a step, means over the window. The parts of "split" are means over the
// ranks, and add up to a period; "within" tells of them in other ways. Of "by_rank", late_ms is the
// mean over all steps, late_share the part of the steps in which the rank was the late one.
struct RankWindow {
  std::int64_t first = 0, last = 0;  // steps, inclusive; from 1
  StepTotals totals{};
  std::vector<Times> ranks{};  // sums over the window
  std::chrono::system_clock::time_point time{};

  [[nodiscard]] bool empty() const { return totals.steps == 0; }
};

// {"end":"..","step":100,"reached":"eval_loss 3.29 is
// below 3.3","wall_s":12.5,"evaluation_s":1.2,"checkpoint_after_s":0,"peak_memory_bytes":1,
// "bubble":{"measured":0.1,"predicted":0.09},"decoded_again":0.8,
// "load":{"host":"n1","cores":2,"others":1.8,"stolen":0},
// "replays":[{"setting":"KEY=VALUE","gain":0.12,..}]}; the run has done all its steps,
// or reached its target.
struct RunEnding {
  std::int64_t step = 0;
  std::string reached{};  // train.stop_at's target and its value; "" for none
  double wall_seconds = 0;
  double evaluation_seconds = 0;
  double checkpoint_after_seconds = 0;  // behind the last step, within the wall time
  std::uint64_t peak_memory_bytes = 0;
  std::optional<BubbleShares> bubble{};
  double decoded_again = 0;  // as in RunSummary
  std::optional<HostLoad> load{};
  std::vector<Trial> trials{};
  std::chrono::system_clock::time_point time{};
};

// One JSON object and a newline.
[[nodiscard]] std::string format_json(const RunStart& start);
[[nodiscard]] std::string format_json(const RankWindow& window);
[[nodiscard]] std::string format_json(const RunEnding& end);

// Nothing if a line is none of these, or incomplete. Missing values are 0; a window with lists of
// different lengths is invalid. An end's timestamp is not read back.
using RankLine = std::variant<RunStart, RankWindow, RunEnding>;
[[nodiscard]] std::optional<RankLine> parse_rank_line(std::string_view line);

}  // namespace trireme
