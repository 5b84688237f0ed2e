// SPDX-License-Identifier: Apache-2.0
// Private to this room: the end of a job under mpirun without the banners that MPI_Abort and mpirun
// would print below our own message.
#pragma once

namespace trireme::detail {

// MPI_Abort(MPI_COMM_WORLD, code), by Open MPI's own function below it where the library has that.
// Returns only where the library does.
void abort_mpi(int code) noexcept;

// For a process of mpirun's that never started MPI: asks mpirun through PMIx, the interface between
// the two, to end the job with `code`. Returns where that cannot be had; exiting then ends the job
// as well, with a banner.
void abort_before_mpi(int code) noexcept;

}  // namespace trireme::detail
