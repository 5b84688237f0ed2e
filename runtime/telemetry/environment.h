// SPDX-License-Identifier: Apache-2.0
// Everything about the place of a run that may explain its numbers later.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace trireme {

// What only the caller knows; the rest (CPU, memory, versions of the build, variables) is read from
// this process and its host.
struct RunEnvironment {
  int ranks = 1;
  std::vector<std::string> hosts;                // one per rank, in rank order
  std::map<std::string, std::string> libraries;  // "Open MPI" -> "4.1.4"
  std::vector<std::string> command_line;
};

// "0.1.0 (v0.1.0-12-gabcdef-dirty, GNU 12.2.0, Release)"
[[nodiscard]] std::string version_text();
// That and what else of a build changes its arithmetic: "..., x86-64-v3"
[[nodiscard]] std::string build_text();
// What a revision does not say of a program: "" where it is a commit, else (with changes that no
// commit has, or without git) the XXH3 of the file `program`.
[[nodiscard]] std::string changes_of(std::string_view revision, const std::string& program);

// The pretty-printed JSON object that environment.json holds: version, build, hosts, CPU, memory,
// libraries, command line, start time (UTC, ISO 8601), and the environment variables that steer a
// run, by a list (secrets.h). Secrets in the command line and in values are left out.
[[nodiscard]] std::string environment_json(const RunEnvironment& environment);

// The words of the command line with blanks between, without secrets; UTF-8.
[[nodiscard]] std::string recorded_command_line(const RunEnvironment& environment);

// Peak resident memory of this process in bytes.
[[nodiscard]] std::uint64_t peak_resident_bytes();

}  // namespace trireme
