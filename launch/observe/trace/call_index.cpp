// SPDX-License-Identifier: Apache-2.0
#include "launch/observe/trace/call_index.h"

#include <algorithm>
#include <cstdlib>

namespace trireme {

CallIndex::CallIndex(const TraceFile& trace) : by_rank_(static_cast<std::size_t>(trace.ranks)) {
  for (const FileSpan& span : trace.spans) {
    if (!is_message(span.kind)) continue;
    OfRank& rank = by_rank_[static_cast<std::size_t>(span.rank)];
    if (span.kind == SpanKind::collective) rank.collectives.push_back(&span);
    if (span.kind == SpanKind::receive) rank.receives.push_back(&span);
    calls_[key_of(span)].push_back(&span);
  }
  for (OfRank& rank : by_rank_) {
    std::ranges::sort(rank.collectives, {}, &FileSpan::end);
    std::ranges::sort(rank.receives, {}, &FileSpan::end);
  }
}

CallIndex::Key CallIndex::key_of(const FileSpan& call) {
  switch (call.kind) {
    case SpanKind::send:
      return {call.group, call.number, call.rank, call.peer};
    case SpanKind::receive:
      return {call.group, call.number, call.peer, call.rank};
    default:
      return {call.group, call.number, -1, -1};
  }
}

const std::vector<const FileSpan*>& CallIndex::same_call(const FileSpan& call) const {
  return calls_.at(key_of(call));
}

// Calls end in order per stream, but a rank has several streams, and calls of a group end together;
// so a few more are checked.
const FileSpan* CallIndex::receive_before(int rank, std::int64_t begin, std::int64_t end) const {
  constexpr int looked_at = 16;
  const auto& calls = by_rank_[static_cast<std::size_t>(rank)].receives;
  const auto place = std::ranges::lower_bound(calls, end, {}, &FileSpan::end);
  const FileSpan* best = nullptr;
  const auto consider = [&](const FileSpan* call) {
    if (call->begin >= end || call->end <= begin) return;
    if (best == nullptr || std::abs(call->end - end) < std::abs(best->end - end)) best = call;
  };
  auto after = place;
  for (int i = 0; i < looked_at && after != calls.end(); ++i, ++after)
    consider(*after);
  auto before = place;
  for (int i = 0; i < looked_at && before != calls.begin(); ++i)
    consider(*--before);
  return best;
}

const FileSpan* CallIndex::collective_within(int rank, std::int64_t begin, std::int64_t end) const {
  constexpr int beyond = 16;
  const auto& calls = by_rank_[static_cast<std::size_t>(rank)].collectives;
  auto call = std::ranges::upper_bound(calls, begin, {}, &FileSpan::end);
  const FileSpan* best = nullptr;
  std::int64_t longest = 0;
  for (int later = 0; call != calls.end() && later < beyond; ++call) {
    const std::int64_t common = std::min(end, (*call)->end) - std::max(begin, (*call)->begin);
    if ((*call)->begin >= end) ++later;
    if (common <= longest) continue;
    longest = common;
    best = *call;
  }
  return best;
}

}  // namespace trireme
