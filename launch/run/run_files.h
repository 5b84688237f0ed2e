// SPDX-License-Identifier: Apache-2.0
// The small files of a run directory: environment.json, checkpoints/, the end of console.log.
// RunDirectory (runtime/telemetry/run_directory.h) has their names.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::runs {

// environment.json; fields that are missing or of another type are empty.
struct EnvironmentFile {
  std::string version{}, revision{}, started{};  // of the start: UTC, ISO 8601
  std::string cpu{};                             // of the first host
  int cores = 0;                                 // online there
  int ranks = 0;
  std::vector<std::string> hosts{};    // by rank
  std::vector<std::string> command{};  // that started it
};
// Nothing if `text` is no JSON object.
[[nodiscard]] std::optional<EnvironmentFile> parse_environment(std::string_view text);

struct StoredCheckpoint {
  std::string name{}, path{};
  std::int64_t step = 0;
  bool whole = false;  // has a manifest
  double written = 0;  // seconds since 1970, of its manifest
};
// The run's checkpoints, by step. Raises ExitCode::checkpoint if they cannot be listed.
[[nodiscard]] std::vector<StoredCheckpoint> list_stored(const std::string& directory);
// Total size of its files.
[[nodiscard]] double stored_bytes(const StoredCheckpoint& checkpoint);
// The newest complete one; nothing if there is none, or they cannot be listed.
[[nodiscard]] std::optional<StoredCheckpoint> newest_stored(const std::string& directory);

// The end of a console.log: an error, a warning, or the stop of --until. Later lines supersede an
// error, because the run continued or was restarted. Empty if there is none, or no such file.
[[nodiscard]] std::string log_end_of(const std::string& path);
// Logged by a run that has done the steps of --until.
inline constexpr std::string_view until_mark = "stopped at the step that --until names";

// The runs that a place on a command line names: a run directory, a directory of runs (of a job
// array, a study, a campaign), or a pattern.
// In natural order, run_2 before run_10; the place itself if it contains no run.
[[nodiscard]] std::vector<std::string> runs_at(std::string place);

// Distinguishing names: the parts of the paths without common beginnings and ends,
// "000-base/seed-1" of "study/runs/000-base/seed-1/run"; for a single run the last part.
[[nodiscard]] std::vector<std::string> distinguishing_names(std::span<const std::string> runs);

}  // namespace trireme::runs
