// SPDX-License-Identifier: Apache-2.0
// The YAML file of `trireme campaign`: what is trained, on how many nodes, where, and for how long.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trireme::campaign {

struct SlurmOptions {
  std::vector<std::string> partitions{};  // empty: the cluster's default
  std::string account{}, qos{};
  std::int64_t minutes = 0;            // time limit of one job; 0: the partition's
  std::vector<std::string> options{};  // further words of sbatch
};

struct CampaignFile {
  std::string path{};              // of the file itself
  std::string config{};            // of trireme train, absolute
  std::vector<std::string> set{};  // "key=value"
  std::string directory{};         // absolute; the run is DIRECTORY/run
  std::int64_t min_nodes = 1, max_nodes = 1;
  std::int64_t ranks_per_node = 1;
  std::vector<std::string> layouts{};  // "data=4:tensor=2"; empty: the planner's
  std::vector<std::string> hosts{};    // empty: under Slurm
  SlurmOptions slurm{};
  double node_hours = 0;         // 0: no limit
  std::optional<double> end{};   // seconds since 1970
  double exclude_hours = 12;     // for a host that failed
  std::int64_t no_progress = 5;  // attempts in a row without a newer checkpoint
  double backoff_seconds = 10;   // before the attempt after a failure; doubled with each
  bool health_check = false;
  double gain = 1.3;  // of the time that is left, for which a running job is stopped
  double better_after_minutes = 20;
  double poll_seconds = 30;

  [[nodiscard]] bool under_slurm() const { return hosts.empty(); }
  [[nodiscard]] std::string run_directory() const { return directory + "/run"; }
  // "FILE:LINE: KEY", or "FILE: KEY" of a key that is not there.
  [[nodiscard]] std::string where(const std::string& key) const;

  struct Place {
    std::string key;
    int line = 0;
  };
  std::vector<Place> places{};
};

// Raises ExitCode::config with file, line, key, value, what is allowed and the fix. `directory`
// and the files that are named are looked for in the current directory, then (files) beside `path`.
[[nodiscard]] CampaignFile load_campaign(const std::string& path);
[[nodiscard]] CampaignFile parse_campaign(const std::string& text, const std::string& path);

// The rows of the keys as a table of markdown, for README.md and --list-keys.
[[nodiscard]] std::string campaign_keys_markdown();
// The same for a terminal.
[[nodiscard]] std::string campaign_keys_text();

}  // namespace trireme::campaign
