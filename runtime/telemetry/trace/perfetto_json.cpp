// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/trace/perfetto_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

namespace trireme {
namespace {

using nlohmann::json;

// Flow numbers must be exact in JavaScript, which has 53 bits.
constexpr std::uint64_t flow_bits = (std::uint64_t{1} << 48U) - 1;

std::uint64_t flow_number(std::string_view key) {
  std::uint64_t hash = 14695981039346656037U;  // FNV-1a
  for (const char c : key)
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return (hash ^ hash >> 48U) & flow_bits;
}

class Part {
 public:
  explicit Part(const RankTrace& trace) : trace_(trace) {}

  std::string text() {
    names();
    for (const RankSpan& span : trace_.spans) {
      this->span(span);
      if (span.group >= 0 && span.number >= 0) flows(span);
    }
    for (const TraceCounter& counter : trace_.counters)
      append(R"({{"ph":"C","name":{},"pid":{},"ts":{},"args":{{"value":{}}}}})",
             quoted(counter.name), trace_.rank, microseconds(counter.at), counter.value);
    return std::move(text_);
  }

 private:
  static std::string quoted(std::string_view text) {
    return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
  }
  static std::string microseconds(std::int64_t nanoseconds) {
    const char* const sign = nanoseconds < 0 ? "-" : "";
    const std::int64_t size = nanoseconds < 0 ? -nanoseconds : nanoseconds;
    return fmt::format("{}{}.{:03}", sign, size / 1000, size % 1000);
  }
  template <typename... Args>
  void append(fmt::format_string<Args...> format, Args&&... args) {
    text_ += ",\n";
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }
  // Threads are numbered from 1: readers take 0 for the idle task.
  static int thread_of(int track) { return track + 1; }

  void names() {
    append(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":{}}}}})", trace_.rank,
           quoted(fmt::format("rank {} on {}", trace_.rank, trace_.host)));
    append(R"({{"ph":"M","name":"process_sort_index","pid":{},"args":{{"sort_index":{}}}}})",
           trace_.rank, trace_.rank);
    const TraceClockFacts& clock = trace_.clock;
    append(R"({{"ph":"M","name":"process_labels","pid":{},"args":{{"labels":)"
           R"("clock ahead by {:.1f} us, times within {:.1f} us"}}}})",
           trace_.rank, clock.offset_us, clock.error_us);
    append(R"({{"ph":"M","name":"clock","pid":{},"args":{{"offset_us":{},"error_us":{},)"
           R"("drift_ppm":{},"jumped":{}}}}})",
           trace_.rank, clock.offset_us, clock.error_us, clock.drift_ppm, clock.jumped);
    for (std::size_t i = 0; i < trace_.tracks.size(); ++i) {
      const int thread = thread_of(static_cast<int>(i));
      append(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}}}})",
             trace_.rank, thread, quoted(trace_.tracks[i].name));
      append(R"({{"ph":"M","name":"thread_sort_index","pid":{},"tid":{},"args":)"
             R"({{"sort_index":{}}}}})",
             trace_.rank, thread, thread);
    }
  }

  void span(const RankSpan& span) {
    std::string args = fmt::format(R"("kind":"{}")", name_of(span.kind));
    const auto add = [&](std::string_view name, std::int64_t value) {
      if (value >= 0) fmt::format_to(std::back_inserter(args), R"(,"{}":{})", name, value);
    };
    add("step", span.step);
    add("chunk", span.chunk);
    add("micro_batch", span.micro_batch);
    if (span.group >= 0) {
      const TraceGroup& group = group_of(span);
      fmt::format_to(std::back_inserter(args), R"(,"verb":"{}","group":{})", span.verb,
                     quoted(key_of(group)));
      add("group_size", group.size);
      add("number", span.number);
      add("bytes", span.bytes);
      add("peer", span.peer);
      add("root", span.root);
    }
    append(R"({{"ph":"X","name":{},"cat":"{}","pid":{},"tid":{},"ts":{},"dur":{},"args":{{{}}}}})",
           quoted(span.name), category_of(span.kind), trace_.rank, thread_of(span.track),
           microseconds(span.begin), microseconds(span.end - span.begin), args);
  }

  [[nodiscard]] const TraceGroup& group_of(const RankSpan& span) const {
    return trace_.groups[static_cast<std::size_t>(span.group)];
  }
  // "data of rank 3": the group whose first member is rank 3.
  static std::string key_of(const TraceGroup& group) {
    return fmt::format("{} of rank {}", group.name, group.first);
  }

  // An arrow starts when its rank arrives and ends when the other's call returns: none returns
  // before all have arrived.
  void flows(const RankSpan& span) {
    const TraceGroup& group = group_of(span);
    const auto key = [&](int from) {
      return fmt::format("{} {} {} {}", key_of(group), name_of(span.kind), from, span.number);
    };
    const auto message = [&](int from, int to) {
      return fmt::format("{} message {} {} {}", key_of(group), from, to, span.number);
    };
    switch (span.kind) {
      case SpanKind::send:
        return arrow(true, message(trace_.rank, span.peer), "message", span);
      case SpanKind::receive:
        return arrow(false, message(span.peer, trace_.rank), "message", span);
      case SpanKind::collective:
        if (span.root >= 0) return spread(span, key);
        if (group.rank + 1 < group.size) arrow(true, key(group.rank), "collective", span);
        if (group.rank > 0) arrow(false, key(group.rank - 1), "collective", span);
        return;
      default:
        return;
    }
  }
  // The root of a broadcast may return before others arrive, and others wait only for the root.
  template <typename Key>
  void spread(const RankSpan& span, const Key& key) {
    const TraceGroup& group = group_of(span);
    if (span.root != trace_.rank) return arrow(false, key(group.rank), "collective", span);
    for (int to = 0; to < group.size; ++to) {
      if (to != group.rank) arrow(true, key(to), "collective", span);
    }
  }
  void arrow(bool begins, std::string_view key, std::string_view what, const RankSpan& span) {
    const std::int64_t at = begins ? span.begin : std::max(span.begin, span.end - 1);
    append(R"({{"ph":"{}","id":{},"name":"{}","cat":"flow","pid":{},"tid":{},"ts":{}{}}})",
           begins ? "s" : "f", flow_number(key), what, trace_.rank, thread_of(span.track),
           microseconds(at), begins ? "" : R"(,"bp":"e")");
  }

  const RankTrace& trace_;
  std::string text_;
};

}  // namespace

// Some readers stop at an unknown key of the file, and want these keys before the events, in few
// bytes.
std::string perfetto_begin(const TraceFacts& facts) {
  double error_us = 0;
  for (const TraceClockFacts& clock : facts.clocks)
    error_us = std::max(error_us, clock.error_us);
  const json mark{
      {"version", trace_version},
      {"steps", {facts.first_step, facts.last_step}},
      {"ranks", facts.ranks},
      {"mesh", {{"data", facts.data}, {"tensor", facts.tensor}, {"pipeline", facts.pipeline}}},
      {"device", facts.device},
      {"clock_error_us", error_us},
      {"origin_unix_ns", facts.origin_unix_ns}};
  const std::string begin = R"({"displayTimeUnit":"ms","otherData":{")";
  return begin + fmt::format("{}\":{}}},\n\"traceEvents\":[\n", trace_mark, mark.dump()) +
         fmt::format(R"({{"ph":"M","name":"trace_begins","pid":0,"args":{{"ranks":{}}}}})",
                     facts.ranks);
}

std::string perfetto_part(const RankTrace& trace) {
  return Part(trace).text();
}

}  // namespace trireme
