// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/trace/rank_trace.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace trireme {

std::string_view name_of(SpanKind kind) {
  constexpr std::array<std::string_view, span_kinds> names{
      "step", "pass", "layer", "wait", "collective", "send", "receive", "copy", "activity", "read"};
  return names[static_cast<std::size_t>(kind)];
}

std::string_view category_of(SpanKind kind) {
  switch (kind) {
    case SpanKind::step:
      return "step";
    case SpanKind::pass:
    case SpanKind::layer:
      return "compute";
    case SpanKind::wait:
      return "wait";
    case SpanKind::collective:
    case SpanKind::send:
    case SpanKind::receive:
      return "communication";
    case SpanKind::copy:
      return "copy";
    case SpanKind::activity:
      return "host";
    case SpanKind::read:
      return "loader";
  }
  return "other";
}

std::vector<TracePiece> innermost_pieces(const std::vector<SpanTimes>& spans) {
  std::vector<std::size_t> order(spans.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // Of spans with the same start the longer is outside; of equal ones the first.
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return spans[a].begin != spans[b].begin ? spans[a].begin < spans[b].begin
                                            : spans[a].end > spans[b].end;
  });
  std::vector<TracePiece> pieces;
  std::vector<std::size_t> open;
  std::int64_t now = 0;
  const auto advance = [&](std::int64_t to) {
    while (!open.empty() && now < to) {
      const std::int64_t end = std::min(spans[open.back()].end, to);
      if (end > now) pieces.push_back({now, end, open.back()});
      now = std::max(now, end);
      if (spans[open.back()].end <= now) open.pop_back();
    }
    now = to;
  };
  for (const std::size_t i : order) {
    advance(spans[i].begin);
    while (!open.empty() && spans[open.back()].end <= now)
      open.pop_back();
    open.push_back(i);
  }
  advance(INT64_MAX);
  return pieces;
}

}  // namespace trireme
