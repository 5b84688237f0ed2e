// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/watchdog/start_watch.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>

#include "runtime/base/environment.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// Content of a file in /proc, whose size is unknown.
std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// From the environment of a process; each variable is zero-terminated.
std::optional<std::string> value_in(std::string_view variables, std::string_view name) {
  for (std::size_t at = 0; at < variables.size();) {
    const std::string_view entry = variables.substr(at, variables.find('\0', at) - at);
    if (entry.starts_with(name) && entry.substr(name.size()).starts_with('='))
      return std::string(entry.substr(name.size() + 1));
    at += entry.size() + 1;
  }
  return {};
}

bool is_same_job(std::string_view a, std::string_view b) {
  bool known = false;
  for (const char* const name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID",
                                 "SLURM_JOB_ID", "SLURM_STEP_ID"}) {
    const auto here = value_in(a, name);
    if (here != value_in(b, name)) return false;
    known |= here.has_value();
  }
  return known;
}

std::optional<int> rank_in(std::string_view variables) {
  for (const char* const name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    const std::string value = value_in(variables, name).value_or("");
    int rank = 0;
    if (std::from_chars(value.data(), value.data() + value.size(), rank).ec == std::errc())
      return rank;
  }
  return {};
}

// What a rank's processes, such as a wrapper script, say about it.
struct Processes {
  std::string first, stopped;  // process ids
  bool runs_program = false;
};

}  // namespace

RanksHere ranks_here() {
  const std::string own = text_of("/proc/self/environ");
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  std::map<int, Processes> ranks;
  for (fs::directory_iterator entry("/proc", error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string number = entry->path().filename();
    if (number.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string variables = text_of(entry->path() / "environ");
    const auto rank = rank_in(variables);
    if (!rank || !is_same_job(own, variables)) continue;
    // "812 (name) T ..."
    const std::string status = text_of(entry->path() / "stat");
    const std::size_t state = status.rfind(')') + 2;
    Processes& processes = ranks[*rank];
    if (processes.first.empty()) processes.first = number;
    if (state < status.size() && (status[state] == 'T' || status[state] == 't'))
      processes.stopped = number;
    std::error_code gone;
    processes.runs_program |= fs::read_symlink(entry->path() / "exe", gone) == program;
  }
  RanksHere here;
  for (const auto& [rank, processes] : ranks) {
    here.found.insert(rank);
    if (!processes.stopped.empty())
      here.missing.push_back(fmt::format("rank {} is stopped (process {} on {})", rank,
                                         processes.stopped, host_name()));
    else if (!processes.runs_program)
      here.missing.push_back(
          fmt::format("rank {} has not started the program yet (process {} on {})", rank,
                      processes.first, host_name()));
  }
  return here;
}

}  // namespace trireme
