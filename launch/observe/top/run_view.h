// SPDX-License-Identifier: Apache-2.0
// The state of a possibly running run, from the ends of its files.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "launch/observe/top/loss_curve.h"
#include "launch/run/file_tail.h"
#include "launch/run/metrics_line.h"
#include "launch/run/run_standing.h"
#include "runtime/telemetry/advice.h"

namespace trireme::top {

using runs::RunStatus;

// A warning of a run: a skipped batch, a failed checkpoint, or a warning line.
struct WarningLine {
  std::int64_t step = 0;
  std::string text{};
};

struct SlowRankRow {
  int rank = 0;
  double late_ms = 0;  // a step
  double late_share = 0;
};

// The last window of steps in ranks.jsonl.
struct RankRows {
  std::int64_t first = 0, last = 0;  // steps
  int ranks = 0;
  double period_ms = 0;                // mean over the ranks
  double checkpoint_seconds = 0;       // each, of those in the window
  std::vector<SlowRankRow> slowest{};  // latest first; three at most
};

struct RunView {
  std::string directory{}, name{};
  runs::RunStanding standing{};
  std::int64_t steps = 0;            // train.steps; 0: not known
  RunFacts facts{};                  // by the config
  std::string summary{};             // "gpt2, bf16, data 2 x tensor 1 x pipeline 1"; may be empty
  std::vector<std::string> hosts{};  // by rank
  std::deque<runs::MetricsLine> recent{};  // the last steps, over which means are taken
  LossCurve losses{};
  std::optional<runs::MetricsLine> evaluation{};
  std::deque<WarningLine> warnings{};  // the last ones
  std::int64_t warning_count = 0;      // in the part of the file that was read
  RankRows ranks{};
  std::string ranks_problem{};            // why nothing is known of single ranks
  bool came_to_its_end = false;           // from ranks.jsonl
  std::string reached{};                  // the target that ended it, from there too
  double planned_mib = 0;                 // memory of a rank as planned; 0: not known
  double resident_mib = 0, peak_mib = 0;  // of rank 0, if it runs on this host
  std::string save_in_progress{};         // name of the unfinished save
  bool on_this_host = false;              // its last start was
  std::string problem{};                  // files that cannot be read

  [[nodiscard]] std::int64_t step() const { return recent.empty() ? 0 : recent.back().step(); }
  // Mean over the last steps, of those that know; NaN of none.
  [[nodiscard]] double mean(std::string_view key) const;
  [[nodiscard]] double items_per_second() const;    // such a mean
  [[nodiscard]] double evaluation_seconds() const;  // of the last one
  [[nodiscard]] double share_done() const;          // 0..1
  [[nodiscard]] double checkpoint_age() const;      // seconds; of the newest, which is there
  // Seconds; NaN if unknown.
  [[nodiscard]] double time_left() const;
};

class RunFollower {
 public:
  explicit RunFollower(std::string directory);
  // Sets its name among others.
  void rename(std::string name) { view_.name = std::move(name); }
  // Looks at the files again. Nothing raises.
  void refresh();
  [[nodiscard]] const RunView& view() const { return view_; }

 private:
  void take_metrics_line(std::string_view text);
  void take_rank_line(std::string_view text);
  void read_settings();
  void read_environment();
  void read_planned_memory();
  void read_owner();
  void find_save_in_progress();
  void judge();

  RunView view_;
  runs::MetricsLine line_;
  runs::FileTail metrics_, ranks_;
  std::int64_t other_lines_ = 0;  // of metrics.jsonl: torn, or of another version
  double config_written_ = -1, environment_written_ = -1;
  bool has_planned_ = false;
};

}  // namespace trireme::top
