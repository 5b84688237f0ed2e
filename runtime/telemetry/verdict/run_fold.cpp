// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/verdict/run_fold.h"

#include <algorithm>

namespace trireme {

void RunFold::start(const RunStart& start) {
  *this = {};
  start_ = start;
}

void RunFold::add(const RankWindow& window) {
  if (ranks_.empty()) ranks_.resize(window.ranks.size());
  // A line of another job, or an edited one.
  if (ranks_.size() != window.ranks.size()) return;
  if (last_step_ > 0 && window.first <= last_step_) return;
  last_step_ = window.last;
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
  const RankMesh mesh = mesh_of(start_.facts);
  // The first steps warm up, at a different speed on each rank.
  constexpr std::int64_t least_steps = 6;
  if (static_cast<int>(ranks_.size()) == mesh.size() && totals_.steps >= least_steps)
    summary.slow = slow_ranks(mesh, ranks_);
  return summary;
}

}  // namespace trireme
