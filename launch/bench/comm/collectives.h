// SPDX-License-Identifier: Apache-2.0
// `trireme bench machine --links`: a table of every collective on each process group of a job.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::comm_bench {

struct CollectiveOptions {
  std::string config{};  // gives device and process groups; "": the world on the CPU
  std::vector<std::string> overrides{};
  std::int64_t min_bytes = 4, max_bytes = std::int64_t{64} << 20;
  std::int64_t factor = 4;  // from one size to the next
  int repeats = 9;
  std::string json_file{}, hardware_file{};  // output, and the hardware file to update; "": none
  bool accept_load = false;
};

// Prints on rank 0. Collective over the job's ranks. Raises ExitCode::config for a single rank, and
// ExitCode::communication where results are wrong.
void bench_collectives(const CollectiveOptions& options);

}  // namespace trireme::comm_bench
