// SPDX-License-Identifier: Apache-2.0
// Private to this module: what threads that end the job need in addition to abort_job().
#pragma once

#include <chrono>

#include "runtime/comm/mpi.h"

namespace trireme {

// When a job is aborted, mpirun drops unread output, which may include the error message.
inline constexpr std::chrono::milliseconds time_to_read_output{200};

// abort_job() calls it right before the process ends, from any thread. One per process.
void set_abort_hook(void (*hook)() noexcept) noexcept;

// Ends the process with `code` in so many seconds, whatever blocks: the launcher may be gone, and a
// call into it never returns, nor may a driver that stops its kernels. On a busy host an end in
// order may take as long.
void arm_last_resort(unsigned seconds, int code) noexcept;

}  // namespace trireme

namespace trireme::detail {

// The end of a job under mpirun without the banners that MPI_Abort and mpirun would print below our
// own message.

// MPI_Abort(MPI_COMM_WORLD, code), by Open MPI's own function below it where the library has that.
// Returns only where the library does.
void abort_mpi(int code) noexcept;

// For a process of mpirun's that never started MPI: asks mpirun through PMIx, the interface between
// the two, to end the job with `code`. Returns where that cannot be had; exiting then ends the job
// as well, with a banner.
void abort_before_mpi(int code) noexcept;

}  // namespace trireme::detail
