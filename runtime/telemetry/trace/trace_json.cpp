// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/trace/trace_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

namespace trireme {
namespace {

using nlohmann::json;

// Numbers of flows are those of JavaScript too, which has 53 bits.
constexpr std::uint64_t flow_bits = (std::uint64_t{1} << 48U) - 1;

std::uint64_t flow_number(std::string_view key) {
  std::uint64_t hash = 14695981039346656037U;  // FNV-1a
  for (const char c : key)
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return (hash ^ hash >> 48U) & flow_bits;
}

// Events of one rank, each behind a comma.
class Events {
 protected:
  explicit Events(const RankTrace& trace) : trace_(trace) {}

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
  // `args`: members of a JSON object.
  void fact(std::string_view name, int process, int thread, std::string_view args) {
    append(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"ts":0,"args":{{{}}}}})", name, process,
           thread, args);
  }
  void work(std::string_view name, std::string_view category, int process, int thread,
            const SpanTimes& times, std::string_view args) {
    append(R"({{"ph":"X","name":{},"cat":"{}","pid":{},"tid":{},"ts":{},"dur":{},"args":{{{}}}}})",
           quoted(name), category, process, thread, microseconds(times.begin),
           microseconds(times.end - times.begin), args);
  }

  const RankTrace& trace_;
  std::string text_;
};

class Perfetto : Events {
 public:
  explicit Perfetto(const RankTrace& trace) : Events(trace) {}

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
  // Threads are numbered from 1: readers take 0 for the idle task.
  static int thread_of(int track) { return track + 1; }

  void names() {
    const TraceClockFacts& clock = trace_.clock;
    const auto of_rank = [&](std::string_view name, std::string_view args) {
      append(R"({{"ph":"M","name":"{}","pid":{},"args":{{{}}}}})", name, trace_.rank, args);
    };
    of_rank("process_name",
            R"("name":)" + quoted(fmt::format("rank {} on {}", trace_.rank, trace_.host)));
    of_rank("process_sort_index", fmt::format(R"("sort_index":{})", trace_.rank));
    of_rank("process_labels",
            fmt::format(R"("labels":"clock ahead by {:.1f} us, times within {:.1f} us")",
                        clock.offset_us, clock.error_us));
    of_rank("clock", fmt::format(R"("offset_us":{},"error_us":{},"drift_ppm":{},"jumped":{})",
                                 clock.offset_us, clock.error_us, clock.drift_ppm, clock.jumped));
    for (std::size_t i = 0; i < trace_.tracks.size(); ++i) {
      const int thread = thread_of(static_cast<int>(i));
      fact("thread_name", trace_.rank, thread, R"("name":)" + quoted(trace_.tracks[i].name));
      fact("thread_sort_index", trace_.rank, thread, fmt::format(R"("sort_index":{})", thread));
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
    work(span.name, category_of(span.kind), trace_.rank, thread_of(span.track),
         {span.begin, span.end}, args);
  }

  [[nodiscard]] const TraceGroup& group_of(const RankSpan& span) const {
    return trace_.groups[static_cast<std::size_t>(span.group)];
  }
  // "data of rank 3": the group whose first member is rank 3.
  static std::string key_of(const TraceGroup& group) {
    return fmt::format("{} of rank {}", group.name, group.first);
  }

  // An arrow begins where its rank has come and ends where the other's call does: nobody leaves
  // before all have come.
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
  // The root of a broadcast may leave before others come, who wait for it alone.
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
};

// Streams have the numbers that PyTorch's have most often, threads those behind them.
constexpr int first_stream = 7;
constexpr int host_process = 1000;

class Kineto : Events {
 public:
  explicit Kineto(const RankTrace& trace) : Events(trace) {}

  std::string text(const std::string& device) {
    name(0, fmt::format("{} of rank {} on {}", device, trace_.rank, trace_.host));
    name(host_process, fmt::format("rank {} on {}", trace_.rank, trace_.host));
    add_steps();
    add_compute();
    for (const RankSpan& span : trace_.spans)
      add(span);
    return text_.substr(1);
  }

 private:
  void name(int process, std::string_view what) {
    fact("process_name", process, 0, R"("name":)" + quoted(what));
  }
  void of_host(std::string_view category, std::string_view name, int thread, const SpanTimes& times,
               std::string_view args = {}) {
    work(name, category, host_process, thread, times, args);
  }

  // Work of a stream and, where tools look for it, the host's call that enqueued it: what ties the
  // one to the other is a number.
  void add_work(std::string_view category, std::string_view name, const RankSpan& span,
                const SpanTimes& times, const std::string& args = {}) {
    const int stream = first_stream + span.track;
    const std::string link = fmt::format(R"("correlation":{})", ++correlation_);
    work(name, category, 0, stream, times,
         fmt::format(R"({}"device":0,"stream":{},{})", args, stream, link));
    of_host("cuda_runtime", span.kind == SpanKind::copy ? "cudaMemcpyAsync" : "cudaLaunchKernel",
            host_process, {span.enqueued, span.enqueued + 1'000}, link);
  }

  // What the compute stream waits in is no work of its.
  void add_compute() {
    std::vector<const RankSpan*> of_stream;
    std::vector<SpanTimes> times;
    for (const RankSpan& span : trace_.spans) {
      if (trace_.tracks[static_cast<std::size_t>(span.track)].kind != TrackKind::compute) continue;
      of_stream.push_back(&span);
      times.push_back({span.begin, span.end});
    }
    for (const TracePiece& piece : innermost_pieces(times)) {
      const RankSpan& span = *of_stream[piece.span];
      if (span.kind == SpanKind::pass || span.kind == SpanKind::layer)
        add_work("kernel", span.name, span, {piece.begin, piece.end});
    }
  }

  // The host's time of a step lasts until it begins with the next.
  void add_steps() {
    std::vector<const RankSpan*> steps;
    for (const RankSpan& span : trace_.spans) {
      if (span.kind == SpanKind::step) steps.push_back(&span);
    }
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const std::int64_t end = i + 1 < steps.size() ? steps[i + 1]->enqueued : steps[i]->end;
      of_host("user_annotation", fmt::format("ProfilerStep#{}", steps[i]->step), host_process,
              {steps[i]->enqueued, std::max(end, steps[i]->enqueued)});
    }
  }

  void add(const RankSpan& span) {
    const SpanTimes times{span.begin, span.end};
    if (is_message(span.kind)) {
      std::string args = fmt::format(R"("Collective name":"{}",)", span.verb);
      if (span.group >= 0)
        args += fmt::format(R"("Group size":{},)",
                            trace_.groups[static_cast<std::size_t>(span.group)].size);
      add_work("kernel", "ncclDevKernel_" + span.name, span, times, args);
    } else if (span.kind == SpanKind::copy) {
      add_work("gpu_memcpy", "Memcpy HtoD (" + span.name + ")", span, times);
    } else if (span.kind == SpanKind::activity || span.kind == SpanKind::read) {
      of_host("cpu_op", span.name, host_process + span.track, times);
    }
  }

  int correlation_ = 0;
};

}  // namespace

// Some readers give up at a key of the file that they do not know, and want these before the
// events, on few bytes.
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
  return Perfetto(trace).text();
}

// Readers look for `"rank": 3` in the text, with the space, before they parse it.
std::string kineto_json(const RankTrace& trace, const TraceFacts& facts) {
  return fmt::format(
      R"({{"schemaVersion": 1, "deviceProperties": [{{"id": 0, "name": "{0}"}}], )"
      R"("distributedInfo": {{"backend": "{1}", "rank": {2}, "world_size": {3}}}, )"
      R"("displayTimeUnit": "ms", "baseTimeNanoseconds": {4}, "traceEvents": [{5}{6})",
      facts.device, facts.device == "cuda" ? "nccl" : "mpi", trace.rank, facts.ranks,
      facts.origin_unix_ns, Kineto(trace).text(facts.device), perfetto_end());
}

}  // namespace trireme
