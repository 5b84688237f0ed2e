// SPDX-License-Identifier: Apache-2.0
// `trireme replay`: repeats steps of a run from its nearest earlier checkpoint, on any layout, and
// compares them with the run's certificate.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/engine/session.h"

namespace trireme {

struct ReplayRequest {
  std::string run;         // directory
  std::int64_t step = 0;   // from 1
  std::int64_t steps = 1;  // number of steps from that one on
  std::vector<std::string> overrides{};
  std::string record{};   // directory for recordings of these steps; "": none
  bool values = false;    // values too, not only digests
  std::string against{};  // directory of another recording to compare with
};

struct ReplayReport {
  std::vector<std::string> lines;  // what was replayed, and the result, for people
  std::string difference;          // the first step that differs, with quantity and kind
  std::string tensor;              // the first that differs from the other recording
  [[nodiscard]] bool same() const { return difference.empty() && tensor.empty(); }
};

// Uses the run's own layout if the job has as many ranks and `overrides` set no key of `parallel`;
// else data parallelism with these overrides. Steps that differ are replayed again, to see whether
// the replay is reproducible. Collective; rank 0 has the report, but same() is equal on all ranks.
// Raises ExitCode::config if it is not a run or the certificate lacks these steps,
// ExitCode::checkpoint for a certificate that does not hold, ExitCode::data for other data.
[[nodiscard]] ReplayReport replay(const RankProcess& process, const ReplayRequest& request);

}  // namespace trireme
