// SPDX-License-Identifier: Apache-2.0
// metrics.jsonl of a run, read once from start to end in bounded memory. Reading never fails
// because of the content: unusable lines are counted.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launch/observe/report/buckets.h"
#include "launch/observe/report/rank_history.h"
#include "launch/run/metrics_line.h"

namespace trireme::report {

// Names of derived columns, besides the keys of the lines.
inline constexpr std::string_view elapsed_column = "elapsed_s";  // running, up to this step
// After the previous step, by the lines' time stamps.
inline constexpr std::string_view between_column = row_of(TimePart::between_steps).key;
inline constexpr std::string_view goodput_column =
    "goodput";  // share of new steps in the time so far

struct Evaluation {
  std::int64_t step = 0;
  double loss = std::numeric_limits<double>::quiet_NaN();
  Qualities quality{};
  double seconds = 0;
  double elapsed = 0;  // of the run, at its end
  runs::MetricsLine::SourceLosses sources{};
};

// A list that keeps its first entries and counts all of them.
template <typename T, std::size_t limit = 100>
struct Few {
  std::vector<T> first{};
  std::int64_t count = 0;
  void add(T value) {
    if (++count <= static_cast<std::int64_t>(limit)) first.push_back(std::move(value));
  }
};

// A gap between two lines that is longer than the work they report.
struct Pause {
  std::int64_t step = 0;  // the next step
  double seconds = 0;
  double ended = 0;  // seconds since 1970
};
struct Event {
  std::int64_t step = 0;
  std::string text{};
};

struct MetricsHistory {
  Buckets buckets;
  // Over all lines, including repeated steps.
  StepTotals totals{};
  std::string items{};  // "tokens", "images"; empty if unknown
  std::int64_t steps = 0, first_step = 0, last_step = 0, highest_step = 0;
  std::optional<double> first_loss{}, last_loss{}, lowest_loss{}, last_lr{}, items_seen{};
  std::int64_t lowest_loss_step = 0;
  Divergence divergence{};
  Few<std::int64_t> non_finite{};         // steps without a finite loss or gradient norm
  std::vector<Evaluation> evaluations{};  // thinned out if there are very many
  std::int64_t evaluation_count = 0;
  double evaluation_seconds = 0;
  std::vector<ExpertLoad> loads{};  // of experts, at their last read
  std::int64_t loads_step = 0, highest_load_step = 0;
  double highest_load = 0;  // ExpertLoad::max_over_mean of any layer in any step
  Few<Event> skipped{}, failed_saves{}, warnings{};
  Few<Pause> pauses{};

  // Seconds: running (without lost work and pauses), and from the first to the last line's time
  // stamp.
  double running_seconds = 0, paused_seconds = 0, first_time = 0, last_time = 0;
  LostSteps lost{};
  [[nodiscard]] double whole_seconds() const {
    return running_seconds + lost.seconds + paused_seconds;
  }
  double repeated_seconds = 0;  // repeated steps
  std::int64_t repeated_steps = 0;
  Few<Event> went_back{};  // the previous step, and the step it returned to
  std::int64_t missing_steps = 0, clock_jumps = 0;

  std::int64_t lines = 0, broken = 0, first_broken = 0, of_no_kind = 0, too_long = 0;
  bool torn_end = false;
};

// A gap that contains one of `starts` consists of the steps lost before that start, and a pause,
// however short. Raises ExitCode::data if the file cannot be read.
[[nodiscard]] MetricsHistory read_metrics(const std::string& path,
                                          std::span<const RunStart> starts = {});

}  // namespace trireme::report
