// SPDX-License-Identifier: Apache-2.0
// How far the run of a campaign has come, from its directory.
#pragma once

#include <cstdint>
#include <string>

namespace trireme::campaign {

struct RunProgress {
  std::int64_t checkpoint = 0;  // step of the newest one; 0: none
  std::int64_t step = 0;        // the last one that metrics.jsonl has; 0: none
  double step_seconds = 0;      // median of the newest steps behind `from`; 0: none
};

// `from`: the step that the job went on from. Raises nothing: what cannot be read is 0.
[[nodiscard]] RunProgress read_progress(const std::string& run, std::int64_t from);

// "loss 2.76 (exact bits 0x1.6p+1), weights xxh3 02..." of a log's last line about them; empty
// where there is none.
[[nodiscard]] std::string final_bits(const std::string& log);

}  // namespace trireme::campaign
