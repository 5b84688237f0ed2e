// SPDX-License-Identifier: Apache-2.0
// `trireme replay` without steps: whether a run directory still holds what the run's certificate
// says, and where and why two runs part.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct RunCheck {
  std::vector<std::string> lines;     // what was looked at and how it stands, for people
  std::vector<std::string> problems;  // a sentence each; none: all of it holds
};
// A line, or a problem where it does not hold.
void add(RunCheck& check, std::string_view what, const std::string& finding, bool holds);

// Raises ExitCode::config for a directory without a certificate.
[[nodiscard]] std::string certificate_in(const std::string& directory);

// The chain of the certificate, and beside it config.yaml, config.user.yaml, environment.json,
// metrics.jsonl, the weights, their averages and the checkpoints, as far as they are there.
[[nodiscard]] RunCheck verify_run(const std::string& directory);
// Whether `other` did the same, step by step and evaluation by evaluation: else the first that
// differs, and in what, and all that the two runs were started with otherwise.
[[nodiscard]] RunCheck compare_runs(const std::string& directory, const std::string& other);

}  // namespace trireme
