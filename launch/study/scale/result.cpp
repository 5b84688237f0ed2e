// SPDX-License-Identifier: Apache-2.0
#include "launch/study/scale/result.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "launch/run/file_tail.h"
#include "launch/run/metrics_line.h"
#include "launch/run/run_files.h"
#include "models/config.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/environment.h"
#include "runtime/base/json.h"
#include "runtime/base/line_reader.h"
#include "runtime/device/device.h"
#include "runtime/telemetry/certificate/certificate.h"

namespace trireme::scale {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RunPlace, hosts, ranks_per_host, cpu, cores, device, started)

namespace {

using json = nlohmann::json;

// A part may be slightly negative, because clocks of ranks differ.
bool possible(const Times& parts) {
  constexpr double clocks = 0.01;
  const double period = parts[TimePart::period];
  return period > 0 && std::ranges::all_of(told_times(time_use::split), [&](const TimeRow& row) {
           return std::isfinite(parts[row.part]) && parts[row.part] >= -clocks * period;
         });
}

// Empty unless it is a regular file: a pipe would block.
std::string text_of(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return {};
  return read_whole_file(path, std::uint64_t{1} << 24, ExitCode::data);
}

// Over the lines after the first `warmup`, up to number `last`.
struct Sum {
  Times parts{};
  std::map<int, int> slowest{};
  std::int64_t lines = 0, counted = 0;
};

// As core_wait, which the file counts within the others.
void count_core_waits_once(Times& parts) {
  using enum TimePart;
  parts[compute] += std::exchange(parts[between_steps], 0);
  // Parts and waits use different clocks.
  const double behind = std::min(std::exchange(parts[core_straggler], 0), parts[straggler]);
  const double own = std::clamp(parts[core_wait] - behind, 0.0, std::max(parts[compute], 0.0));
  parts[straggler] -= behind;
  parts[compute] -= own;
  parts[core_wait] = own + behind;
}

Sum sum_of(const std::string& path, std::int64_t warmup, std::int64_t last) {
  LineReader lines(path);
  Sum sum;
  try {
    while (const auto line = lines.next()) {
      if (++sum.lines <= warmup || sum.lines > last) continue;
      const json step = parse_json(*line);
      for (const TimeRow& row : told_times(time_use::split))
        sum.parts[row.part] += 1e-3 * step.at(row.key).get<double>();
      ++sum.slowest[step.at("slowest_rank").get<int>()];
      ++sum.counted;
    }
  } catch (const json::exception& error) {
    fail(ExitCode::data, "{}:{}: {}", path, sum.lines, error.what());
  }
  count_core_waits_once(sum.parts);
  return sum;
}

RunResult result_of(const Sum& sum) {
  RunResult result;
  result.parts = sum.parts;
  result.slowest_rank = std::ranges::max_element(sum.slowest, {}, [](const auto& entry) {
                          return entry.second;
                        })->first;
  return result;
}

// "cpu" or "cuda" by the run's resolved config; empty if that cannot be read.
std::string device_of(const std::string& directory) try {
  const DeviceChoice device = load_config(directory + "/config.yaml", {}).device.type;
  const bool gpus = Device::count(DeviceType::cuda) > 0;
  const DeviceChoice found = gpus ? DeviceChoice::cuda : DeviceChoice::cpu;
  return std::string(name_of(device == DeviceChoice::automatic ? found : device));
} catch (const Error&) {
  return {};
}

// The first step with a mean loss of the last `window` steps of at most `target`.
std::int64_t first_step_at(const std::string& path, double target, std::int64_t window) {
  LineReader lines(path);
  std::vector<double> losses;
  double least = std::numeric_limits<double>::infinity();
  runs::MetricsLine line;
  while (const auto text = lines.next()) {
    line.parse(*text);
    if (!line.is_step() || !std::isfinite(line.number("loss"))) continue;
    losses.push_back(line.number("loss"));
    if (std::ssize(losses) < window) continue;
    const double mean =
        std::accumulate(losses.end() - window, losses.end(), 0.0) / static_cast<double>(window);
    if (mean <= target) return std::ssize(losses);
    least = std::min(least, mean);
  }
  fail(ExitCode::data,
       "{}: no {} steps have a mean loss of {} or less within its {} steps; the lowest is {:.4f}: "
       "give a higher --target-loss, or more --steps",
       path, window, target, losses.size(), least);
}

}  // namespace

RunResult read_time_split(const std::string& path, std::int64_t warmup, std::int64_t steps) {
  const Sum sum = sum_of(path, warmup, std::numeric_limits<std::int64_t>::max());
  if (sum.lines != steps || sum.counted == 0)
    fail(ExitCode::data, "{}: {} of {} steps, {} after the first {}", path, sum.lines, steps,
         sum.counted, warmup);
  RunResult result = result_of(sum);
  result.parts *= 1 / static_cast<double>(sum.counted);
  if (!possible(result.parts)) fail(ExitCode::data, "{}: times are negative or missing", path);
  return result;
}

RunResult read_to_loss(const std::string& directory, double target, std::int64_t window) {
  const std::string metrics = directory + "/metrics.jsonl", times = directory + "/time_split.jsonl";
  const std::int64_t reached = first_step_at(metrics, target, window);
  const Sum sum = sum_of(times, 0, reached);
  if (sum.counted != reached)
    fail(ExitCode::data, "{}: {} of {} steps", times, sum.counted, reached);
  if (!possible(sum.parts)) fail(ExitCode::data, "{}: times are negative or missing", times);
  RunResult result = result_of(sum);
  result.steps_to_loss = reached;
  return result;
}

void read_records(RunResult& result, const std::string& directory, std::int64_t warmup) {
  LineReader metrics(directory + "/metrics.jsonl");
  double joules = 0;
  std::int64_t steps = 0;
  runs::MetricsLine line;
  while (const auto text = metrics.next()) {
    line.parse(*text);
    if (!line.is_step() || line.step() <= warmup) continue;
    joules += line.number("joules");  // NaN if unknown
    ++steps;
  }
  if (steps > 0 && std::isfinite(joules))
    result.joules_per_step = joules / static_cast<double>(steps);
  result.certificate = read_certificate(directory + "/certificate.jsonl").chain;
}

RunPlace read_place(const std::string& directory, int cores) {
  RunPlace place;
  if (const auto file = runs::parse_environment(text_of(directory + "/environment.json"))) {
    std::map<std::string, int> ranks;
    for (const std::string& host : file->hosts) {
      if (ranks[host]++ == 0) place.hosts.push_back(host);
      place.ranks_per_host = std::max(place.ranks_per_host, ranks[host]);
    }
    place.cpu = file->cpu;
    place.cores = file->cores;
    place.started = file->started;
    place.device = device_of(directory);
  }
  const bool here = std::ranges::find(place.hosts, host_name()) != place.hosts.end();
  if (here && cores > 0) place.cores = std::min(place.cores, cores);
  return place;
}

void save_result(const std::string& path, const RunResult& result) {
  json text{{"command", fmt::format("{:016x}", result.command)},
            {"code", result.code},
            {"error", result.error},
            {"slowest_rank", result.slowest_rank},
            {"steps_to_loss", result.steps_to_loss},
            {"place", result.place},
            {"certificate", result.certificate},
            {"command_line", result.command_line},
            {"turn", result.turn}};
  for (const TimeRow& row : told_times(time_use::split))
    text[std::string(row.stem())] = result.parts[row.part];
  if (result.joules_per_step) text["joules_per_step"] = *result.joules_per_step;
  write_file(path, text.dump(2, ' ', false, json::error_handler_t::replace) + "\n",
             ExitCode::internal);
}

std::optional<RunResult> load_result(const std::string& path, int ranks) {
  const json text = json_or_discarded(text_of(path));
  if (text.is_discarded()) return {};
  try {
    RunResult result{.command = std::stoull(text.at("command").get<std::string>(), nullptr, 16),
                     .code = text.at("code"),
                     .error = text.at("error"),
                     .slowest_rank = text.at("slowest_rank"),
                     .place = text.at("place")};
    for (const TimeRow& row : told_times(time_use::split))
      result.parts[row.part] = text.at(std::string(row.stem()));
    if (text.contains("joules_per_step")) result.joules_per_step = text["joules_per_step"];
    result.certificate = text.value("certificate", "");
    result.command_line = text.value("command_line", "");
    result.turn = text.value("turn", 0);
    result.steps_to_loss = text.value("steps_to_loss", std::int64_t{0});
    const bool rank_is_there = result.slowest_rank >= 0 && result.slowest_rank < ranks;
    if (result.code == 0 && !(possible(result.parts) && rank_is_there)) return {};
    return result;
  } catch (const std::exception&) {  // of another version
    return {};
  }
}

}  // namespace trireme::scale
