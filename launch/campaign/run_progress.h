// SPDX-License-Identifier: Apache-2.0
// The progress of a campaign's run, read from its directory.
#pragma once

#include <cstdint>
#include <string>

namespace trireme::campaign {

struct RunProgress {
  std::int64_t checkpoint = 0;  // step of the newest one; 0: none
  std::int64_t step = 0;        // last step in metrics.jsonl; 0: none
  double step_seconds = 0;      // median of the newest steps after `from`; 0: none
};

// `from`: the step at which the job started. Raises nothing: unreadable values are 0.
[[nodiscard]] RunProgress read_progress(const std::string& run, std::int64_t from);

// "loss 2.76 (exact bits 0x1.6p+1), weights xxh3 02..." from the log's last such line, or "".
[[nodiscard]] std::string final_bits(const std::string& log);

}  // namespace trireme::campaign
