// SPDX-License-Identifier: Apache-2.0
// `trireme verify-run`: whether a run directory still holds what the run's certificate says, and
// where two runs part.
#pragma once

#include <string>
#include <vector>

namespace trireme {

struct RunCheck {
  std::vector<std::string> lines;     // what was looked at and how it stands, for people
  std::vector<std::string> problems;  // a sentence each; none: all of it holds
};

// The chain of the certificate, and beside it config.yaml, metrics.jsonl, weights.safetensors and
// the checkpoints, as far as they are there. Raises ExitCode::config for a directory without a
// certificate.
[[nodiscard]] RunCheck verify_run(const std::string& directory);
// Whether `other` did the same, step by step: else the first that differs, and in what.
[[nodiscard]] RunCheck compare_runs(const std::string& directory, const std::string& other);

}  // namespace trireme
