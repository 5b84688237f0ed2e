// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/bottleneck/run_fold.h"

#include <algorithm>
#include <utility>

#include "runtime/telemetry/lines/line_file.h"

namespace trireme {
namespace {

// Times of `more` added to those of `to`, by rank.
void add_start(RunSummary& to, const RunSummary& more) {
  to.totals.add(more.totals);
  to.starts += more.starts;
  to.wall_seconds += more.wall_seconds;
  to.evaluation_seconds += more.evaluation_seconds;
  to.checkpoint_after_seconds += more.checkpoint_after_seconds;
  to.ranks.resize(std::max(to.ranks.size(), more.ranks.size()));
  for (std::size_t rank = 0; rank < more.ranks.size(); ++rank)
    to.ranks[rank] += more.ranks[rank];
}

void find_slow_ranks(RunSummary& summary, const RunStart& start) {
  summary.slow = {};
  const RankMesh mesh = mesh_of(start.facts);
  // The first steps warm up, at a different speed on each rank.
  constexpr std::int64_t least_steps = 6;
  if (static_cast<int>(summary.ranks.size()) == mesh.size() && summary.totals.steps >= least_steps)
    summary.slow = slow_ranks(mesh, summary.ranks);
}

}  // namespace

void RunFold::start(const RunStart& start) {
  Earlier earlier = std::move(earlier_);
  // After an end someone asked for more steps: the time in between is no stop.
  if (!began_ || end_) earlier.until = seconds_since_1970(start.time);
  if (began_) {
    add_start(earlier.all, summary());
    earlier.same_ranks &= start.hosts == start_.hosts && start.facts == start_.facts;
  }
  *this = {};
  began_ = true;
  start_ = start;
  earlier_ = std::move(earlier);
}

void RunFold::add(const RankWindow& window) {
  if (ranks_.empty()) ranks_.resize(window.ranks.size());
  // A line of another job, or an edited one.
  if (ranks_.size() != window.ranks.size()) return;
  if (last_step_ > 0 && window.first <= last_step_) return;
  last_step_ = window.last;
  const double until = seconds_since_1970(window.time);
  if (totals_.steps == 0 && earlier_.all.starts > 0 && earlier_.until > 0) {
    const double stopped = until - 1e-3 * window.totals[TimePart::period] - earlier_.until;
    earlier_.all.totals.times[TimePart::stopped] += 1e3 * std::max(stopped, 0.0);
    earlier_.all.wall_seconds += std::max(stopped, 0.0);
  }
  earlier_.until = until;
  totals_.add(window.totals);
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
    ranks_[rank] += window.ranks[rank];
}

void RunFold::end(const RunEnding& end) {
  end_ = end;
}

void RunFold::take(const RankLine& line) {
  if (const auto* const begun = std::get_if<RunStart>(&line)) start(*begun);
  if (const auto* const window = std::get_if<RankWindow>(&line)) add(*window);
  if (const auto* const ended = std::get_if<RunEnding>(&line)) end(*ended);
}

bool RunFold::line(std::string_view line) {
  const auto parsed = parse_rank_line(line);
  if (parsed) take(*parsed);
  return parsed.has_value();
}

RunSummary RunFold::summary() const {
  RunSummary summary{.totals = totals_, .ranks = ranks_, .hosts = start_.hosts};
  const double periods = 1e-3 * totals_[TimePart::period];
  summary.wall_seconds = end_ ? std::max(end_->wall_seconds, periods) : periods;
  summary.evaluation_seconds =
      end_ ? end_->evaluation_seconds : 1e-3 * totals_[TimePart::evaluation];
  if (end_) {
    summary.checkpoint_after_seconds = end_->checkpoint_after_seconds;
    summary.peak_memory_bytes = end_->peak_memory_bytes;
    summary.bubble = end_->bubble;
    summary.decoded_again = end_->decoded_again;
    summary.load = end_->load;
    summary.trials = end_->trials;
  }
  find_slow_ranks(summary, start_);
  return summary;
}

RunSummary RunFold::whole() const {
  RunSummary all = summary();
  if (earlier_.all.starts == 0) return all;
  add_start(all, earlier_.all);
  if (!earlier_.same_ranks) all.ranks.clear();
  find_slow_ranks(all, start_);
  return all;
}

}  // namespace trireme
