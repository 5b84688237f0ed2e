// SPDX-License-Identifier: Apache-2.0
// `trireme replay` without steps: checks a run directory against the run's certificate, and finds
// where and why two runs diverge.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/telemetry/certificate/certificate.h"

namespace trireme {

struct RunCheck {
  std::vector<std::string> lines;     // the checks and the result, for people
  std::vector<std::string> problems;  // one sentence each; empty: everything holds
};
// Adds a line, or a problem if it does not hold.
void add(RunCheck& check, std::string_view what, const std::string& finding, bool holds);

// Raises ExitCode::config if the directory has no certificate.
[[nodiscard]] std::string certificate_in(const std::string& directory);

// Checks the chain of the certificate and, as far as they exist, config.yaml, config.user.yaml,
// environment.json, data.json, metrics.jsonl, ranks.jsonl, console.log, the weights, their averages
// and the checkpoints.
[[nodiscard]] RunCheck verify_run(const std::string& directory);
// environment.json of a start of the run; empty if a later start has replaced it.
[[nodiscard]] std::string environment_of(const std::string& run, const CertificateStart& start);
// "OMP_NUM_THREADS: 2 here, unset there": processor, instruction sets and variables that affect
// results, of two environment.json; none if one is empty.
[[nodiscard]] std::vector<std::string> environment_differences(const std::string& here,
                                                               const std::string& there);
// Whether `other` did the same, step by step and evaluation by evaluation; if not, the first that
// differs, in which quantity, and all differences in how the runs were started.
[[nodiscard]] RunCheck compare_runs(const std::string& directory, const std::string& other);

}  // namespace trireme
