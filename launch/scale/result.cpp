// SPDX-License-Identifier: Apache-2.0
#include "launch/scale/result.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "runtime/base/file.h"

namespace trireme::scale {
namespace {

using json = nlohmann::json;

}  // namespace

RunResult read_time_split(const std::string& path, std::int64_t warmup) {
  std::ifstream file(path);
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
  if (counted == 0)
    fail(ExitCode::data, "{}: {} steps, none after the first {}", path, lines, warmup);
  for (double* const part :
       {&sum.period, &sum.compute, &sum.data_wait, &sum.bubble, &sum.straggler, &sum.exposed_comm})
    *part /= static_cast<double>(counted);
  result.slowest_rank =
      std::ranges::max_element(slowest, {}, [](const auto& entry) { return entry.second; })->first;
  return result;
}

std::string last_words(const std::string& log) {
  std::ifstream file(log);
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
                  {"slowest_rank", result.slowest_rank}};
  write_file(path, text.dump(2, ' ', false, json::error_handler_t::replace) + "\n",
             ExitCode::internal);
}

std::optional<RunResult> load_result(const std::string& path) {
  std::ifstream file(path);
  const json text = json::parse(file, nullptr, false);
  if (text.is_discarded()) return {};
  try {
    return RunResult{.command = std::stoull(text.at("command").get<std::string>(), nullptr, 16),
                     .code = text.at("code"),
                     .error = text.at("error"),
                     .parts = {.period = text.at("period"),
                               .compute = text.at("compute"),
                               .data_wait = text.at("data_wait"),
                               .bubble = text.at("bubble"),
                               .straggler = text.at("straggler"),
                               .exposed_comm = text.at("exposed_comm")},
                     .slowest_rank = text.at("slowest_rank")};
  } catch (const std::exception&) {  // of another version
    return {};
  }
}

}  // namespace trireme::scale
