// SPDX-License-Identifier: Apache-2.0
// Private to this room: what threads that end the job need besides abort_job().
#pragma once

#include <chrono>

#include "runtime/comm/mpi.h"

namespace trireme {

// mpirun drops what it has not read when a job is aborted, and that may be the error message.
inline constexpr std::chrono::milliseconds time_to_read_output{200};

// abort_job() calls it right before the process ends, from any thread. One for the process.
void set_abort_hook(void (*hook)() noexcept) noexcept;

}  // namespace trireme
