// SPDX-License-Identifier: Apache-2.0
// The time that a run needs in an allocation besides its steps. Each start measures it and writes
// RUN/start_times.json. The next start reserves that much for its end, and refuses a limit that
// leaves no time for steps: such a run would be requeued forever.
#pragma once

#include <optional>
#include <string>

namespace trireme {

// In seconds, the longest of one start.
struct StartTimes {
  double to_first_step = 0;  // from the launch
  double save = 0;           // from the start of a checkpoint to its commit
  double step = 0;
};

// Of the last start; empty if there is none or its file is damaged.
[[nodiscard]] std::optional<StartTimes> last_start_times(const std::string& run_directory);
// Replaces the file. Raises ExitCode::internal if it cannot be written.
void keep_start_times(const std::string& run_directory, const StartTimes& times);

// Seconds since TRIREME_START_TIME (seconds since 1970, set by the launch scripts); 0 without it.
[[nodiscard]] double seconds_since_launch();

// From Slurm's SLURM_JOB_START_TIME and SLURM_JOB_END_TIME, in seconds. Nothing if they are not set
// or do not fit a job that runs now: a shell may have outlived its job.
struct AllocationTimes {
  std::optional<double> whole;  // from its start to its end
  std::optional<double> left;   // from now to its end
};
[[nodiscard]] AllocationTimes allocation_times();

// Raises ExitCode::config, with a limit that works, if less than a tenth of `limit` seconds would
// remain for steps.
void require_enough_time(const StartTimes& times, double limit, const std::string& run_directory);

}  // namespace trireme
