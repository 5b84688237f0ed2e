// SPDX-License-Identifier: Apache-2.0
#include "launch/scale/result.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "models/config.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/host_name.h"
#include "runtime/device/device.h"

namespace trireme::scale {
namespace {

using json = nlohmann::json;

// Times of a step that took some. A part may be as little below 0 as clocks of ranks differ.
bool possible(const StepParts& parts) {
  constexpr double clocks = 0.01;
  const double all[] = {parts.compute,   parts.data_wait,    parts.bubble,
                        parts.straggler, parts.exposed_comm, parts.period};
  return parts.period > 0 && std::ranges::all_of(all, [&](double seconds) {
           return std::isfinite(seconds) && seconds >= -clocks * parts.period;
         });
}

json describe(const RunPlace& place) {
  return {{"hosts", place.hosts},   {"ranks_per_host", place.ranks_per_host},
          {"cpu", place.cpu},       {"cores", place.cores},
          {"device", place.device}, {"started", place.started}};
}

RunPlace place_from(const json& text) {
  return {.hosts = text.at("hosts"),
          .ranks_per_host = text.at("ranks_per_host"),
          .cpu = text.at("cpu"),
          .cores = text.at("cores"),
          .device = text.at("device"),
          .started = text.at("started")};
}

// Nothing of a file that is none, such as a pipe, which nobody writes to.
std::string text_of(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return {};
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

RunResult read_time_split(const std::string& path, std::int64_t warmup, std::int64_t steps) {
  std::istringstream file(text_of(path));
  RunResult result;
  StepParts& sum = result.parts;
  std::map<int, int> slowest;
  std::int64_t lines = 0, counted = 0;
  try {
    for (std::string line; std::getline(file, line);) {
      if (++lines <= warmup) continue;
      const json step = json::parse(line);
      const auto seconds = [&](const char* key) { return 1e-3 * step.at(key).get<double>(); };
      sum.period += seconds("period_ms");
      sum.compute += seconds("compute_ms") + seconds("between_steps_ms");
      sum.data_wait += seconds("data_wait_ms");
      sum.bubble += seconds("bubble_ms");
      sum.straggler += seconds("straggler_ms");
      sum.exposed_comm += seconds("exposed_comm_ms");
      ++slowest[step.at("slowest_rank").get<int>()];
      ++counted;
    }
  } catch (const json::exception& error) {
    fail(ExitCode::data, "{}:{}: {}", path, lines, error.what());
  }
  if (lines != steps || counted == 0)
    fail(ExitCode::data, "{}: {} of {} steps, {} after the first {}", path, lines, steps, counted,
         warmup);
  for (double* const part :
       {&sum.period, &sum.compute, &sum.data_wait, &sum.bubble, &sum.straggler, &sum.exposed_comm})
    *part /= static_cast<double>(counted);
  if (!possible(sum)) fail(ExitCode::data, "{}: times below 0, or none", path);
  result.slowest_rank =
      std::ranges::max_element(slowest, {}, [](const auto& entry) { return entry.second; })->first;
  return result;
}

RunPlace read_place(const std::string& directory, int cores) {
  RunPlace place;
  const json text = json::parse(text_of(directory + "/environment.json"), nullptr, false);
  try {
    std::map<std::string, int> ranks;
    for (const std::string host : text.at("hosts")) {
      if (ranks[host]++ == 0) place.hosts.push_back(host);
      place.ranks_per_host = std::max(place.ranks_per_host, ranks[host]);
    }
    const json& cpu = text.at("cpu");
    place.cpu = cpu.at("model");
    place.cores = cpu.at("cores_online");
    place.started = text.at("start_time");
    const DeviceChoice device = load_config(directory + "/config.yaml", {}).device.type;
    const bool gpus = Device::count(DeviceType::cuda) > 0;
    const DeviceChoice found = gpus ? DeviceChoice::cuda : DeviceChoice::cpu;
    place.device = name_of(device == DeviceChoice::automatic ? found : device);
  } catch (const json::exception&) {  // of another version
  } catch (const Error&) {
  }
  const bool here = std::ranges::find(place.hosts, host_name()) != place.hosts.end();
  if (here && cores > 0) place.cores = std::min(place.cores, cores);
  return place;
}

std::string last_words(const std::string& log) {
  std::istringstream file(text_of(log));
  std::string last, error;
  for (std::string line; std::getline(file, line);) {
    if (line.find_first_not_of(" \t-") == std::string::npos) continue;
    last = line;
    if (line.find("] error: ") != std::string::npos) error = line;
  }
  return error.empty() ? last : error;
}

void save_result(const std::string& path, const RunResult& result) {
  const StepParts& parts = result.parts;
  const json text{{"command", fmt::format("{:016x}", result.command)},
                  {"code", result.code},
                  {"error", result.error},
                  {"period", parts.period},
                  {"compute", parts.compute},
                  {"data_wait", parts.data_wait},
                  {"bubble", parts.bubble},
                  {"straggler", parts.straggler},
                  {"exposed_comm", parts.exposed_comm},
                  {"slowest_rank", result.slowest_rank},
                  {"place", describe(result.place)}};
  write_file(path, text.dump(2, ' ', false, json::error_handler_t::replace) + "\n",
             ExitCode::internal);
}

std::optional<RunResult> load_result(const std::string& path, int ranks) {
  const json text = json::parse(text_of(path), nullptr, false);
  if (text.is_discarded()) return {};
  try {
    RunResult result{.command = std::stoull(text.at("command").get<std::string>(), nullptr, 16),
                     .code = text.at("code"),
                     .error = text.at("error"),
                     .parts = {.period = text.at("period"),
                               .compute = text.at("compute"),
                               .data_wait = text.at("data_wait"),
                               .bubble = text.at("bubble"),
                               .straggler = text.at("straggler"),
                               .exposed_comm = text.at("exposed_comm")},
                     .slowest_rank = text.at("slowest_rank"),
                     .place = place_from(text.at("place"))};
    const bool rank_is_there = result.slowest_rank >= 0 && result.slowest_rank < ranks;
    if (result.code == 0 && !(possible(result.parts) && rank_is_there)) return {};
    return result;
  } catch (const std::exception&) {  // of another version
    return {};
  }
}

}  // namespace trireme::scale
