// SPDX-License-Identifier: Apache-2.0
// What a run needs of an allocation's time beside its steps. Each start measures it and leaves it
// in RUN/start_times.json for the next one, which keeps only as much time for its end as that
// takes, and refuses a limit that leaves none for steps: it would be requeued for ever.
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

// What the last start left; nothing where there is none or its file is damaged.
[[nodiscard]] std::optional<StartTimes> last_start_times(const std::string& run_directory);
// Replaces it. Raises ExitCode::internal where the file cannot be written.
void keep_start_times(const std::string& run_directory, const StartTimes& times);

// The time from TRIREME_START_TIME (seconds since 1970, of the launch scripts) to now, 0 without
// it.
[[nodiscard]] double seconds_since_launch();

// What Slurm says of this job in SLURM_JOB_START_TIME and SLURM_JOB_END_TIME, in seconds; nothing
// where they are not set, or where they cannot be of a job that runs now: a shell may have outlived
// the one that it was started in.
struct AllocationTimes {
  std::optional<double> whole;  // from its start to its end
  std::optional<double> left;   // from now to its end
};
[[nodiscard]] AllocationTimes allocation_times();

// Raises ExitCode::config, with a limit that works, where less than a tenth of `limit` seconds
// would be left for steps.
void require_enough_time(const StartTimes& times, double limit, const std::string& run_directory);

}  // namespace trireme
