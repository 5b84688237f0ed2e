// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/trace/kineto_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace trireme {
namespace {

using nlohmann::json;

// The stream numbers that are most frequent in PyTorch's traces; threads follow.
constexpr int first_stream = 7;
constexpr int host_process = 1000;

double microseconds(std::int64_t nanoseconds) {
  return 1e-3 * static_cast<double>(nanoseconds);
}

class Kineto {
 public:
  Kineto(const RankTrace& trace, const TraceFacts& facts) : trace_(trace), facts_(facts) {}

  std::string text() {
    begin();
    add_names();
    add_steps();
    add_compute();
    for (const RankSpan& span : trace_.spans)
      add(span);
    return std::move(text_) + "\n]}\n";
  }

 private:
  // Readers search the unparsed text for `"rank": 3` with the space.
  void begin() {
    text_ =
        fmt::format(R"({{"schemaVersion": 1, "deviceProperties": [{{"id": 0, "name": "{0}"}}], )"
                    R"("distributedInfo": {{"backend": "{1}", "rank": {2}, "world_size": {3}}}, )"
                    R"("displayTimeUnit": "ms", "baseTimeNanoseconds": {4}, "traceEvents": [)",
                    facts_.device, facts_.device == "cuda" ? "nccl" : "mpi", trace_.rank,
                    facts_.ranks, facts_.origin_unix_ns);
  }
  void emit(const json& event) {
    text_ += text_.back() == '[' ? "\n" : ",\n";
    text_ += event.dump(-1, ' ', false, json::error_handler_t::replace);
  }
  static int stream_of(int track) { return first_stream + track; }

  void add_names() {
    const auto name = [&](int process, const std::string& what) {
      emit({{"ph", "M"},
            {"name", "process_name"},
            {"pid", process},
            {"tid", 0},
            {"ts", 0},
            {"args", {{"name", what}}}});
    };
    name(0, fmt::format("{} of rank {} on {}", facts_.device, trace_.rank, trace_.host));
    name(host_process, fmt::format("rank {} on {}", trace_.rank, trace_.host));
  }

  // A stream's work and, where tools look for it, the host call that enqueued it; a number links
  // the two.
  void add_work(std::string_view category, std::string name, const RankSpan& span,
                const SpanTimes& times, json args = json::object()) {
    args["device"] = 0;
    args["stream"] = stream_of(span.track);
    args["correlation"] = ++correlation_;
    emit({{"ph", "X"},
          {"cat", category},
          {"name", std::move(name)},
          {"pid", 0},
          {"tid", stream_of(span.track)},
          {"ts", microseconds(times.begin)},
          {"dur", microseconds(times.end - times.begin)},
          {"args", std::move(args)}});
    const bool copy = span.kind == SpanKind::copy;
    json launch = of_host("cuda_runtime", copy ? "cudaMemcpyAsync" : "cudaLaunchKernel",
                          host_process, {span.enqueued, span.enqueued + 1'000});
    launch["args"] = {{"correlation", correlation_}};
    emit(launch);
  }
  static json of_host(std::string_view category, std::string name, int thread,
                      const SpanTimes& times) {
    return {{"ph", "X"},
            {"cat", category},
            {"name", std::move(name)},
            {"pid", host_process},
            {"tid", thread},
            {"ts", microseconds(times.begin)},
            {"dur", microseconds(times.end - times.begin)},
            {"args", json::object()}};
  }

  // Waits of the compute stream are not its work.
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

  // A step on the host lasts until the next one starts.
  void add_steps() {
    std::vector<const RankSpan*> steps;
    for (const RankSpan& span : trace_.spans) {
      if (span.kind == SpanKind::step) steps.push_back(&span);
    }
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const std::int64_t end = i + 1 < steps.size() ? steps[i + 1]->enqueued : steps[i]->end;
      emit(of_host("user_annotation", fmt::format("ProfilerStep#{}", steps[i]->step), host_process,
                   {steps[i]->enqueued, std::max(end, steps[i]->enqueued)}));
    }
  }

  void add(const RankSpan& span) {
    switch (span.kind) {
      case SpanKind::collective:
      case SpanKind::send:
      case SpanKind::receive: {
        json args{{"Collective name", span.verb}};
        if (span.group >= 0)
          args["Group size"] = trace_.groups[static_cast<std::size_t>(span.group)].size;
        return add_work("kernel", "ncclDevKernel_" + span.name, span, {span.begin, span.end},
                        std::move(args));
      }
      case SpanKind::copy:
        return add_work("gpu_memcpy", "Memcpy HtoD (" + span.name + ")", span,
                        {span.begin, span.end});
      case SpanKind::activity:
      case SpanKind::read:
        return emit(
            of_host("cpu_op", span.name, host_process + span.track, {span.begin, span.end}));
      default:
        return;
    }
  }

  std::string text_;
  const RankTrace& trace_;
  const TraceFacts& facts_;
  int correlation_ = 0;
};

}  // namespace

std::string kineto_json(const RankTrace& trace, const TraceFacts& facts) {
  return Kineto(trace, facts).text();
}

}  // namespace trireme
