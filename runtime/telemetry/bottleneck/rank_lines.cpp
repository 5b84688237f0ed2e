// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/bottleneck/rank_lines.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/json.h"
#include "runtime/telemetry/lines/line_file.h"

namespace trireme {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(RunFacts, ranks, data, tensor, pipeline, context,
                                                zero, zero_bubble, on_cpu, host_ranks, host_cores,
                                                data_workers, eval_every, eval_batches,
                                                warmup_steps, clip_norm, checkpoint_every,
                                                checkpoint_async, full_recompute, global_batch,
                                                micro_batch, uneven_batch, hosts)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Trial, setting, gain, of_sample, unless)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(BubbleShares, measured, predicted)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(HostLoad, host, cores, others, stolen)

namespace {

using Json = nlohmann::ordered_json;

double in_thousandths(double value) {
  return std::isfinite(value) ? std::round(1e3 * value) / 1e3 : 0;
}

double number(const nlohmann::json& object, std::string_view key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : 0.0;
}

// 1970 if it is missing or invalid.
std::chrono::system_clock::time_point time_in(const nlohmann::json& object, const char* key) {
  const std::chrono::duration<double> time(
      timestamp_seconds(object.value(key, std::string())).value_or(0));
  return std::chrono::system_clock::time_point(std::chrono::round<std::chrono::milliseconds>(time));
}

std::optional<RankLine> start_of(const nlohmann::json& json) {
  RunStart start{.step = json.value("step", std::int64_t{0}),
                 .lost = {json.value("lost_steps", std::int64_t{0}), number(json, "lost_s")}};
  start.hosts = json.value("hosts", std::vector<std::string>{});
  start.facts = json.value("facts", RunFacts{});
  start.time = time_in(json, "start");
  return start;
}

std::optional<RankLine> end_of(const nlohmann::json& json) {
  RunEnding end{.step = json.value("step", std::int64_t{0}),
                .reached = json.value("reached", ""),
                .wall_seconds = number(json, "wall_s"),
                .evaluation_seconds = number(json, "evaluation_s"),
                .checkpoint_after_seconds = number(json, "checkpoint_after_s"),
                .peak_memory_bytes = json.value("peak_memory_bytes", std::uint64_t{0})};
  if (json.contains("bubble")) end.bubble = json.at("bubble").get<BubbleShares>();
  end.decoded_again = number(json, "decoded_again");
  if (json.contains("load")) end.load = json.at("load").get<HostLoad>();
  end.trials = json.value("replays", std::vector<Trial>{});
  return end;
}

std::optional<RankLine> window_of(const nlohmann::json& json) {
  RankWindow window{.first = json.at("steps").at(0).get<std::int64_t>(),
                    .last = json.at("steps").at(1).get<std::int64_t>()};
  window.time = time_in(json, "timestamp");
  const std::int64_t steps = window.last - window.first + 1;
  const auto of_all = static_cast<double>(steps);
  if (steps < 1) return std::nullopt;
  window.totals.steps = steps;
  Times& times = window.totals.times;
  for (const TimeRow& row : times_in_order(time_use::of_run))
    times[row.part] = of_all * number(json.at("split"), row.key);
  times[TimePart::between_steps] = times[TimePart::checkpoint] + times[TimePart::evaluation];
  times[TimePart::period] = times.sum(time_use::of_run);
  times[TimePart::step] = times[TimePart::period] - times[TimePart::between_steps];
  if (const auto within = json.find("within"); within != json.end()) {
    for (const TimeRow& row : times_in_order(time_use::within))
      times[row.part] = of_all * number(*within, row.key);
  }
  const nlohmann::json& by_rank = json.at("by_rank");
  window.ranks.resize(by_rank.at("period_ms").size());
  for (const TimeRow& row : times_in_order(time_use::of_rank)) {
    const auto values = by_rank.find(row.key);
    if (values == by_rank.end()) continue;
    if (values->size() != window.ranks.size()) return std::nullopt;
    for (std::size_t rank = 0; rank < window.ranks.size(); ++rank)
      window.ranks[rank][row.part] = of_all * values->at(rank).get<double>();
  }
  return window;
}

}  // namespace

std::string format_json(const RunStart& start) {
  const RankMesh mesh = mesh_of(start.facts);
  const Json json = {
      {"start", timestamp_text(start.time)},
      {"step", start.step},
      {"lost_steps", start.lost.steps},
      {"lost_s", in_thousandths(start.lost.seconds)},
      {"ranks", start.facts.ranks},
      {"hosts", start.hosts},
      {"mesh", {{"data", mesh.data}, {"tensor", mesh.tensor}, {"pipeline", mesh.pipeline}}},
      {"facts", nlohmann::json(start.facts)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string format_json(const RankWindow& window) {
  const auto steps = static_cast<double>(std::max<std::int64_t>(window.totals.steps, 1));
  Json split = Json::object(), within = Json::object(), by_rank = Json::object();
  const Times parts = parts_of(window.totals.times);
  for (const TimeRow& row : told_times(time_use::of_run))
    if (row.part != TimePart::stopped)  // in no window
      split[std::string(row.key)] = in_thousandths(parts[row.part] / steps);
  for (const TimeRow& row : times_in_order(time_use::within))
    within[std::string(row.key)] = in_thousandths(window.totals[row.part] / steps);
  for (const TimeRow& row : times_in_order(time_use::of_rank)) {
    Json& list = by_rank[std::string(row.key)] = Json::array();
    for (const Times& rank : window.ranks)
      list.push_back(in_thousandths(rank[row.part] / steps));
  }
  const Json json = {{"steps", {window.first, window.last}},
                     {"timestamp", timestamp_text(window.time)},
                     {"split", std::move(split)},
                     {"within", std::move(within)},
                     {"by_rank", std::move(by_rank)}};
  return json.dump() + '\n';
}

std::string format_json(const RunEnding& end) {
  Json json = {{"end", timestamp_text(end.time)},
               {"step", end.step},
               {"wall_s", in_thousandths(end.wall_seconds)},
               {"evaluation_s", in_thousandths(end.evaluation_seconds)},
               {"checkpoint_after_s", in_thousandths(end.checkpoint_after_seconds)},
               {"peak_memory_bytes", end.peak_memory_bytes}};
  if (!end.reached.empty()) json["reached"] = end.reached;
  if (end.bubble) json["bubble"] = nlohmann::json(*end.bubble);
  if (end.decoded_again > 0) json["decoded_again"] = in_thousandths(end.decoded_again);
  if (end.load) json["load"] = nlohmann::json(*end.load);
  if (!end.trials.empty()) json["replays"] = nlohmann::json(end.trials);
  return json.dump() + '\n';
}

std::optional<RankLine> parse_rank_line(std::string_view line) {
  const auto json = json_or_discarded(line);
  if (!json.is_object()) return std::nullopt;
  try {
    if (json.contains("start")) return start_of(json);
    if (json.contains("end")) return end_of(json);
    if (json.contains("steps")) return window_of(json);
  } catch (const nlohmann::json::exception&) {  // a foreign type: none of these lines
  }
  return std::nullopt;
}

}  // namespace trireme
