// SPDX-License-Identifier: Apache-2.0
// Where this process runs, and the numbers that launchers, schedulers and users leave in the
// environment. What stands there may be
// of another job, of another program or misspelled: it is checked where it is read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

// The whole number in the variable `name`; nothing where it is not set or is empty. Anything but a
// number from `min` to `max` is told in a warning, once per process, and left out.
[[nodiscard]] std::optional<std::int64_t> environment_number(const char* name, std::int64_t min,
                                                             std::int64_t max);

// Says in a warning, once per process, that the variable `name` is left out, and why.
void ignore_variable(const char* name, std::string_view reason);

// This process's rank, and the number of processes, as a launcher of MPI or Slurm says; nothing
// without one.
[[nodiscard]] std::optional<int> launched_rank();
[[nodiscard]] std::optional<int> launched_ranks();

[[nodiscard]] std::string host_name();

}  // namespace trireme
