// SPDX-License-Identifier: Apache-2.0
// Facts about a run's environment that may explain its numbers later.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace trireme {

// Facts from the caller; the rest (CPU, memory, build versions, variables) is read from this
// process and its host.
struct RunEnvironment {
  int ranks = 1;
  std::vector<std::string> hosts;                // one per rank, in rank order
  std::map<std::string, std::string> libraries;  // "Open MPI" -> "4.1.4"
  std::vector<std::string> command_line;
  // "link" -> 2: most thread blocks of NCCL's calls by role of their group; empty: without NCCL.
  std::map<std::string, int> nccl_ctas = {};
};

// "0.1.0 (v0.1.0-12-gabcdef-dirty, GNU 12.2.0, Release)"
[[nodiscard]] std::string version_text();
// version_text() plus build options that change arithmetic: "..., x86-64-v3"
[[nodiscard]] std::string build_text();
// Identifies a program beyond its revision: "" for a clean commit, else (uncommitted changes, or no
// git) the XXH3 of the file `program`.
[[nodiscard]] std::string changes_of(std::string_view revision, const std::string& program);

// The JSON object in environment.json: version, build, hosts, CPU, memory, libraries, command line,
// start time (UTC, ISO 8601), and the listed environment variables that affect a run (secrets.h).
// Without secrets in the command line and in values.
[[nodiscard]] std::string environment_json(const RunEnvironment& environment);

// The command line's words joined by blanks, without secrets; UTF-8.
[[nodiscard]] std::string recorded_command_line(const RunEnvironment& environment);

}  // namespace trireme
