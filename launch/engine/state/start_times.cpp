// SPDX-License-Identifier: Apache-2.0
#include "launch/engine/state/start_times.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/base/atomic_file.h"
#include "runtime/base/environment.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/train/step_requests.h"

namespace trireme {
namespace {

using json = nlohmann::ordered_json;

// Share of the limit; a start with less is not worthwhile.
constexpr double min_share_of_steps = 0.1;
// Share of a recommended limit.
constexpr double good_share_of_steps = 0.5;

std::string times_path(const std::string& run_directory) {
  return run_directory + "/start_times.json";
}

// The last second of Slurm's four-digit dates.
constexpr std::int64_t last_time = 253'402'300'799;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

bool plausible(double seconds) {
  return std::isfinite(seconds) && seconds >= 0;
}

}  // namespace

std::optional<StartTimes> last_start_times(const std::string& run_directory) {
  constexpr std::uint64_t limit = 1 << 16;
  const auto text = read_file_if_exists(times_path(run_directory), limit, ExitCode::config);
  if (!text) return std::nullopt;
  const json values = json_or_discarded<json>(*text);
  StartTimes times;
  for (const auto& [key, seconds] :
       {std::pair{"to_first_step_seconds", &times.to_first_step},
        std::pair{"save_seconds", &times.save}, std::pair{"step_seconds", &times.step}}) {
    if (!values.is_object() || !values.contains(key) || !values[key].is_number()) return {};
    *seconds = values[key].get<double>();
    if (!plausible(*seconds)) return std::nullopt;
  }
  return times;
}

void keep_start_times(const std::string& run_directory, const StartTimes& times) {
  const json values = {{"to_first_step_seconds", times.to_first_step},
                       {"save_seconds", times.save},
                       {"step_seconds", times.step}};
  write_file(times_path(run_directory), values.dump() + "\n", ExitCode::internal);
}

double seconds_since_launch() {
  const auto launch = environment_number("TRIREME_START_TIME", 0, last_time);
  if (!launch) return 0;
  constexpr double longest = 24 * 3600;
  const double seconds = seconds_now() - static_cast<double>(*launch);
  if (seconds <= longest) return std::max(0.0, seconds);
  ignore_variable("TRIREME_START_TIME", "no start of a run takes more than a day");
  return 0;
}

AllocationTimes allocation_times() {
  const auto start = environment_number("SLURM_JOB_START_TIME", 0, last_time);
  const auto end = environment_number("SLURM_JOB_END_TIME", 0, last_time);
  if (!end) return {};
  const double left = static_cast<double>(*end) - seconds_now();
  if (left <= 0) {
    ignore_variable("SLURM_JOB_END_TIME", "that time has passed; it is from a job that is over");
    return {};
  }
  AllocationTimes times{.whole = {}, .left = left};
  if (start && *start < *end) times.whole = static_cast<double>(*end - *start);
  return times;
}

void require_enough_time(const StartTimes& times, double limit, const std::string& run_directory) {
  const double ending = stop_margin_seconds(times.save, times.step);
  const double left = limit - times.to_first_step - ending;
  if (left >= min_share_of_steps * limit) return;
  const double minutes = std::ceil((times.to_first_step + ending) / (1 - good_share_of_steps) / 60);
  fail(ExitCode::config,
       "the job's time limit of {:.0f} s is too short: the last start of this run took {:.1f} s to "
       "its first step, and its end takes {:.1f} s (a checkpoint {:.1f} s, a step {:.2f} s; see "
       "{}), which leaves {:.0f} s for steps; give the job {:.0f} minutes or more (sbatch "
       "--time={:.0f})",
       limit, times.to_first_step, ending, times.save, times.step, times_path(run_directory),
       std::max(0.0, left), minutes, minutes);
}

}  // namespace trireme
