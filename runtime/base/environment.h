// SPDX-License-Identifier: Apache-2.0
// The host and local rank of this process, and numbers from the environment that launchers,
// schedulers and users set. They may belong to another job or program, or be misspelled: each is
// checked when read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

// The integer in the variable `name`; nothing if it is unset or empty. Anything but a number from
// `min` to `max` is ignored with a warning, once per process.
[[nodiscard]] std::optional<std::int64_t> environment_number(const char* name, std::int64_t min,
                                                             std::int64_t max);

// Warns, once per process, that the variable `name` is ignored, and why.
void ignore_variable(const char* name, std::string_view reason);

// This process's rank and the number of processes, from the MPI or Slurm launcher; nothing without
// one.
[[nodiscard]] std::optional<int> launched_rank();
[[nodiscard]] std::optional<int> launched_ranks();

[[nodiscard]] std::string host_name();

}  // namespace trireme
