// SPDX-License-Identifier: Apache-2.0
#include "launch/observe/trace/trace_summary.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "launch/observe/trace/call_index.h"
#include "launch/observe/trace/compute_track.h"

namespace trireme {
namespace {

double ms(std::int64_t nanoseconds) {
  return 1e-6 * static_cast<double>(nanoseconds);
}

class Summary {
 public:
  explicit Summary(const TraceFile& trace)
      : trace_(trace), calls_(trace), tracks_(compute_tracks(trace)) {}

  TraceSummary make(std::size_t gaps) const {
    TraceSummary summary;
    for (const ComputeTrack& track : tracks_) {
      summary.ranks.push_back(shares(track));
      add_gaps(track, summary.gaps);
    }
    const auto longer = [](const TraceGap& a, const TraceGap& b) {
      return a.end - a.begin > b.end - b.begin;
    };
    const std::size_t kept = std::min(gaps, summary.gaps.size());
    std::ranges::partial_sort(summary.gaps,
                              summary.gaps.begin() + static_cast<std::ptrdiff_t>(kept), longer);
    summary.gaps.resize(kept);
    for (TraceGap& gap : summary.gaps)
      gap.what = explain(gap);
    return summary;
  }

 private:
  static GapCause cause_of(const TraceFile& trace, const ComputePiece& piece) {
    if (piece.span == nullptr || piece.span->kind == SpanKind::step) return GapCause::host;
    if (piece.span->kind != SpanKind::wait) return GapCause::communication;
    const std::string& name = trace.name_of(piece.span->name);
    if (name == "wait for data") return GapCause::data;
    return name == "wait for communication" ? GapCause::communication : GapCause::stage;
  }

  [[nodiscard]] RankShares shares(const ComputeTrack& track) const {
    const std::int64_t whole = std::max<std::int64_t>(1, track.end() - track.begin());
    RankShares shares{.rank = track.rank, .milliseconds = ms(whole)};
    std::vector<SpanTimes> busy, messages;
    for (const ComputePiece& piece : track.pieces) {
      const double share = static_cast<double>(piece.length()) / static_cast<double>(whole);
      if (piece.busy()) {
        busy.push_back({piece.begin, piece.end});
        shares.busy += share;
        continue;
      }
      switch (cause_of(trace_, piece)) {
        case GapCause::communication:
          shares.communication += share;
          break;
        case GapCause::stage:
          shares.stages += share;
          break;
        case GapCause::data:
          shares.data += share;
          break;
        case GapCause::host:
          shares.host += share;
          break;
      }
    }
    for (const FileSpan& span : trace_.spans) {
      if (span.rank == track.rank && is_message(span.kind))
        messages.push_back({std::max(span.begin, track.begin()), std::min(span.end, track.end())});
    }
    const Intervals under_way = Intervals::of(std::move(messages));
    shares.messages = static_cast<double>(under_way.length()) / static_cast<double>(whole);
    shares.hidden =
        under_way.length() == 0
            ? std::numeric_limits<double>::quiet_NaN()
            : static_cast<double>(under_way.common_with(Intervals::of(std::move(busy))).length()) /
                  static_cast<double>(under_way.length());
    return shares;
  }

  // Adjacent pieces are one gap, with the cause of the longest.
  void add_gaps(const ComputeTrack& track, std::vector<TraceGap>& gaps) const {
    std::optional<TraceGap> gap;
    std::int64_t longest = 0;
    const auto close = [&] {
      if (gap) gaps.push_back(*gap);
      gap.reset();
      longest = 0;
    };
    for (const ComputePiece& piece : track.pieces) {
      if (piece.busy()) {
        close();
        continue;
      }
      if (!gap) gap = TraceGap{.rank = track.rank, .begin = piece.begin, .what = {}};
      gap->end = piece.end;
      if (piece.length() <= longest) continue;
      longest = piece.length();
      gap->cause = cause_of(trace_, piece);
      gap->step = piece.step;
    }
    close();
  }

  // `depth`: of nested waits.
  [[nodiscard]] std::string explain(const TraceGap& gap, int depth = 0) const {
    switch (gap.cause) {
      case GapCause::communication:
        return explain_collective(gap, depth);
      case GapCause::stage:
        return explain_receive(gap, depth);
      case GapCause::data:
        return "for data";
      case GapCause::host:
        break;
    }
    const FileSpan* const activity = longest_activity(gap);
    return fmt::format(
        "for the host, which had enqueued nothing{}",
        activity == nullptr ? "" : fmt::format(" (it was at: {})", trace_.name_of(activity->name)));
  }

  [[nodiscard]] std::string explain_collective(const TraceGap& gap, int depth) const {
    const FileSpan* const call = calls_.collective_within(gap.rank, gap.begin, gap.end);
    if (call == nullptr) return "for the communication stream, which runs its own work";
    const FileSpan* last = call;
    for (const FileSpan* const other : calls_.same_call(*call)) {
      const bool waited_for = call->root < 0 || other->rank == call->root;
      if (waited_for && other->begin > last->begin) last = other;
    }
    const std::string text =
        fmt::format("for {} (group {})", trace_.name_of(call->name), trace_.name_of(call->group));
    const std::int64_t late = std::min(gap.end, last->begin) - gap.begin;
    const std::int64_t under_way = std::min(gap.end, call->end) - std::max(gap.begin, last->begin);
    if (last->rank == gap.rank || late < under_way) {
      return text + fmt::format(": all ranks were there, {:.1f} kB took {:.2f} ms",
                                1e-3 * static_cast<double>(call->bytes), ms(under_way));
    }
    return text +
           fmt::format(": rank {} came last, {:.2f} ms after this began to wait", last->rank,
                       ms(late)) +
           doing(last->rank, gap.begin, gap.begin + late, depth);
  }

  [[nodiscard]] std::string explain_receive(const TraceGap& gap, int depth) const {
    const FileSpan* const call = calls_.receive_before(gap.rank, gap.begin, gap.end);
    if (call == nullptr) return "for another stage";
    const int ranks_of_stage = trace_.data * trace_.tensor;
    const std::string text =
        fmt::format("for {} from rank {} (stage {})", trace_.name_of(call->name), call->peer,
                    call->peer / ranks_of_stage);
    for (const FileSpan* const other : calls_.same_call(*call)) {
      if (other->kind != SpanKind::send || other->begin <= gap.begin) continue;
      const std::int64_t sent = std::min(gap.end, other->begin);
      return text +
             fmt::format(", which sent it {:.2f} ms after this began to wait",
                         ms(sent - gap.begin)) +
             doing(call->peer, gap.begin, sent, depth);
    }
    return text;
  }

  // The late rank's activity during the wait; if it waited itself, the cause of that.
  [[nodiscard]] std::string doing(int rank, std::int64_t begin, std::int64_t end, int depth) const {
    constexpr int deepest = 3;
    const auto track = std::ranges::find(tracks_, rank, &ComputeTrack::rank);
    if (track == tracks_.end()) return {};
    const ComputePiece* const piece = track->most_of(begin, end);
    if (piece == nullptr) return {};
    if (!piece->busy()) {
      if (depth == deepest) return fmt::format("; rank {} waited, too", rank);
      const TraceGap gap{.rank = rank,
                         .begin = piece->begin,
                         .end = piece->end,
                         .step = piece->step,
                         .cause = cause_of(trace_, *piece),
                         .what = {}};
      return fmt::format("; rank {} waited itself, {}", rank, explain(gap, depth + 1));
    }
    std::string at = trace_.name_of(piece->span->name);
    if (piece->span->chunk >= 0)
      at += fmt::format(", chunk {}, micro-batch {}", piece->span->chunk, piece->span->micro_batch);
    return fmt::format("; rank {} was at {}", rank, at);
  }

  [[nodiscard]] const FileSpan* longest_activity(const TraceGap& gap) const {
    const FileSpan* best = nullptr;
    std::int64_t longest = 0;
    for (const FileSpan& span : trace_.spans) {
      if (span.kind != SpanKind::activity || span.rank != gap.rank) continue;
      const std::int64_t common = std::min(gap.end, span.end) - std::max(gap.begin, span.begin);
      if (common <= longest) continue;
      longest = common;
      best = &span;
    }
    return best;
  }

  const TraceFile& trace_;
  CallIndex calls_;
  std::vector<ComputeTrack> tracks_;
};

}  // namespace

TraceSummary summarize(const TraceFile& trace, std::size_t gaps) {
  return Summary(trace).make(gaps);
}

}  // namespace trireme
