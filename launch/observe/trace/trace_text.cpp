// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "launch/observe/trace/trace_summary.h"

namespace trireme {
namespace {

// Of more ranks, the least and the most busy are shown.
constexpr std::size_t ranks_shown = 16;

std::string percent(double share) {
  return std::isnan(share) ? "-" : fmt::format("{:.1f} %", 100 * share);
}

std::string row(const TraceFile& trace, const RankShares& rank) {
  return fmt::format("{:<28}{:>10.2f}{:>10}{:>10}{:>10}{:>10}{:>10}{:>12}{:>10}\n",
                     trace.processes[static_cast<std::size_t>(rank.rank)], rank.milliseconds,
                     percent(rank.busy), percent(rank.communication), percent(rank.stages),
                     percent(rank.data), percent(rank.host), percent(rank.messages),
                     percent(rank.hidden));
}

std::string table(const TraceFile& trace, std::vector<RankShares> ranks) {
  std::string text = fmt::format("{:<28}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>12}{:>10}\n",
                                 "compute stream", "ms", "busy", "waits for", "waits for",
                                 "waits for", "nothing", "messages", "of these");
  text += fmt::format("{:<28}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>12}{:>10}\n", "", "", "",
                      "ranks", "stages", "data", "enqueued", "under way", "hidden");
  const bool all = ranks.size() <= ranks_shown;
  if (!all) std::ranges::sort(ranks, {}, &RankShares::busy);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (!all && i == ranks_shown / 2) {
      text += fmt::format("... {} more ranks, with busy shares between these\n",
                          ranks.size() - ranks_shown);
      i = ranks.size() - ranks_shown / 2;
    }
    text += row(trace, ranks[i]);
  }
  return text;
}

std::int64_t begin_of_step(const TraceFile& trace, const TraceGap& gap) {
  for (const FileSpan& span : trace.spans) {
    if (span.kind == SpanKind::step && span.rank == gap.rank && span.step == gap.step)
      return span.begin;
  }
  return gap.begin;
}

// A gap between two steps counts for the second.
std::string place_of(const TraceFile& trace, const TraceGap& gap) {
  const double ms = 1e-6 * static_cast<double>(gap.begin - begin_of_step(trace, gap));
  return ms < 0 ? fmt::format("from {:.2f} ms before step {}", -ms, gap.step)
                : fmt::format("step {} at {:.2f} ms", gap.step, ms);
}

}  // namespace

std::string text_of(const TraceFile& trace, const TraceSummary& summary) {
  std::string text = fmt::format(
      "{}: {} on {} {} rank(s) (data {} x tensor {} x pipeline {}); clocks agree to {:.2f} us\n\n",
      trace.path,
      trace.first_step == trace.last_step
          ? fmt::format("step {}", trace.first_step)
          : fmt::format("steps {} to {}", trace.first_step, trace.last_step),
      trace.ranks, trace.device, trace.data, trace.tensor, trace.pipeline, trace.clock_error_us);
  text += table(trace, summary.ranks);
  text += fmt::format("\nthe {} largest gaps of the compute streams\n", summary.gaps.size());
  int number = 0;
  for (const TraceGap& gap : summary.gaps) {
    fmt::format_to(std::back_inserter(text), "{:>3}. {:>9.2f} ms  rank {}, {}: {}\n", ++number,
                   1e-6 * static_cast<double>(gap.end - gap.begin), gap.rank, place_of(trace, gap),
                   gap.what);
  }
  return text;
}

}  // namespace trireme
