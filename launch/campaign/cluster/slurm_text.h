// SPDX-License-Identifier: Apache-2.0
// Parses the output of Slurm's commands.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::campaign {

// `text`: from sinfo -h -N -o "%N|%T". Nodes that are idle, answer, and are not in `excluded`; of
// `own` (a job's nodes, which count as idle) all that answer.
[[nodiscard]] std::vector<std::string> idle_nodes(std::string_view text,
                                                  const std::vector<std::string>& excluded,
                                                  const std::vector<std::string>& own);
// The same text: nodes that are down, failing or do not answer.
[[nodiscard]] std::vector<std::string> broken_nodes(std::string_view text);

// "sbatch: Job 5 to start at 2026-11-24T01:45:00 using ...": seconds since 1970, in local time.
[[nodiscard]] std::optional<double> expected_start(std::string_view text);
// "2026-11-24T01:45:00"; empty for "Unknown" and similar.
[[nodiscard]] std::optional<double> local_seconds(const std::string& date);

// Whether a refusal stays until somebody changes something: an account, a partition, a limit. Not
// for full queues and busy or broken nodes.
[[nodiscard]] bool is_permanent(std::string_view refusal);
// The fix as "; ...", or "".
[[nodiscard]] std::string_view advice_for(std::string_view refusal);

// Whether a job with this reason ("PENDING (InvalidAccount)") waits until somebody changes
// something: its account has no budget left, or it asks for more than a job may have.
[[nodiscard]] bool never_starts(std::string_view state);

// The fields of one line of `scontrol show job -o`.
[[nodiscard]] std::map<std::string, std::string> job_fields(std::string_view line);

// The exit code of the run that train.sbatch wrote to a job's log.
[[nodiscard]] std::optional<int> code_in_log(std::string_view log);

}  // namespace trireme::campaign
