// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/bottleneck/rank_log.h"

#include <algorithm>
#include <utility>

namespace trireme {
namespace {

constexpr double shortest_ms = 10e3, share_of_run = 0.005;

bool is_up_to(std::int64_t done, const RankLine& line) {
  if (const auto* const start = std::get_if<RunStart>(&line)) return start->step <= done;
  if (const auto* const window = std::get_if<RankWindow>(&line)) return window->last <= done;
  return std::get<RunEnding>(line).step <= done;
}

// Adds the kept ones to `fold`.
std::optional<KeepLine> lines_up_to(std::int64_t done, bool again, RunFold& fold) {
  if (!again) return std::nullopt;
  return [done, &fold](std::string_view line) {
    const auto parsed = parse_rank_line(line);
    if (!parsed || !is_up_to(done, *parsed)) return false;
    fold.take(*parsed);
    return true;
  };
}

}  // namespace

RankLog::RankLog(std::string path, RunStart start, bool again)
    : file_(std::move(path), lines_up_to(start.step, again, fold_),
            [&start](std::string_view line) {
              // The losses of starts that are cut off stay counted.
              const auto parsed = parse_rank_line(line);
              const auto* const cut = parsed ? std::get_if<RunStart>(&*parsed) : nullptr;
              if (cut == nullptr) return;
              start.lost.steps += cut->lost.steps;
              start.lost.seconds += cut->lost.seconds;
            }) {
  file_.append(format_json(start));
  fold_.start(start);
}

void RankLog::step(const StepMetrics& metrics, std::span<const Times> ranks) {
  if (open_.empty()) {
    open_.first = metrics.step;
    open_.ranks.assign(ranks.size(), {});
  }
  open_.last = metrics.step;
  open_.time = metrics.time;
  open_.totals.add(metrics);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    open_.ranks[rank] += ranks[rank];
  const double length = open_.totals[TimePart::period];
  if (length >= std::max(shortest_ms, share_of_run * (written_ms_ + length))) flush();
}

void RankLog::flush() {
  if (open_.empty()) return;
  file_.append(format_json(open_));
  fold_.add(open_);
  written_ms_ += open_.totals[TimePart::period];
  open_ = {};
}

void RankLog::end(const RunEnding& end) {
  flush();
  file_.append(format_json(end));
  fold_.end(end);
}

}  // namespace trireme
