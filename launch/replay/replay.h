// SPDX-License-Identifier: Apache-2.0
// `trireme replay`: steps of a run once more, from its nearest earlier checkpoint, on any layout,
// held against what the run's certificate says of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/engine/session.h"

namespace trireme {

struct ReplayRequest {
  std::string run;         // directory
  std::int64_t step = 0;   // from 1
  std::int64_t steps = 1;  // how many, from that one on
  std::vector<std::string> overrides{};
  std::string record{};   // directory for recordings of these steps; "": none
  bool values = false;    // with every value, not only digests
  std::string against{};  // directory of another recording, to compare this one with
};

struct ReplayReport {
  std::vector<std::string> lines;  // what was replayed and how it stands, for people
  std::string difference;          // the first step that differs, in what, and of what kind it is
  std::string tensor;              // the first that is not what the other recording has
  [[nodiscard]] bool same() const { return difference.empty() && tensor.empty(); }
};

// The run's own layout where the job has as many ranks and `overrides` name no key of `parallel`;
// else data parallelism with what they name. Where steps differ they are replayed a second time, to
// see whether the replay differs from itself. Collective; rank 0 has the report, but same() holds
// on all alike. Raises ExitCode::config for what is no run, or steps that its certificate does not
// have, ExitCode::checkpoint for a certificate that does not hold, ExitCode::data for other data.
[[nodiscard]] ReplayReport replay(const RankProcess& process, const ReplayRequest& request);

}  // namespace trireme
