// SPDX-License-Identifier: Apache-2.0
// The YAML file of `trireme campaign`: what to train, on how many nodes, where, and for how long.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trireme::campaign {

struct SlurmOptions {
  std::vector<std::string> partitions{};  // empty: the cluster's default
  std::string account{}, qos{};
  std::int64_t minutes = 0;            // time limit of a job; 0: the partition's
  std::vector<std::string> options{};  // further arguments of sbatch
};

struct CampaignFile {
  std::string path{};              // this file
  std::string config{};            // config file of trireme train, absolute
  std::vector<std::string> set{};  // "key=value"
  std::string directory{};         // absolute; the run is DIRECTORY/run
  std::int64_t min_nodes = 1, max_nodes = 1;
  std::int64_t ranks_per_node = 1;
  std::vector<std::string> layouts{};  // "data=4:tensor=2"; empty: the planner's
  std::vector<std::string> hosts{};    // empty: under Slurm
  SlurmOptions slurm{};
  double node_hours = 0;         // 0: no limit
  std::string end_date{};        // budget.end as given
  std::optional<double> end{};   // the same in seconds since 1970
  double exclude_hours = 12;     // for a failed host
  std::int64_t no_progress = 5;  // attempts in a row without a newer checkpoint
  double backoff_seconds = 10;   // before a retry; doubled with each failure
  bool health_check = false;
  double gain =
      1.3;  // stop a running job if others need that many times less for the rest; 0: never
  double better_after_minutes = 20;
  double poll_seconds = 30;

  [[nodiscard]] bool under_slurm() const { return hosts.empty(); }
  [[nodiscard]] std::string run_directory() const { return directory + "/run"; }
  // "FILE:LINE: KEY", or "FILE: KEY" if the key is missing.
  [[nodiscard]] std::string where(const std::string& key) const;

  struct Place {
    std::string key;
    int line = 0;
  };
  std::vector<Place> places{};
};

// Raises ExitCode::config with file, line, key, value, allowed values and the fix. Named files are
// searched in the current directory, then beside `path`.
[[nodiscard]] CampaignFile load_campaign(const std::string& path);
[[nodiscard]] CampaignFile parse_campaign(const std::string& text, const std::string& path);

// The key table in Markdown, for README.md and --list-keys.
[[nodiscard]] std::string campaign_keys_markdown();
// The same for a terminal.
[[nodiscard]] std::string campaign_keys_text();

}  // namespace trireme::campaign
