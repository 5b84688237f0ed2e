// SPDX-License-Identifier: Apache-2.0
// Private to this module: the only way to call MPI, and the only header that includes mpi.h.
#pragma once

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <source_location>

// Raises ExitCode::communication with the call's text, MPI's error class and its explanation. All
// communicators use MPI_ERRORS_RETURN, so MPI returns errors instead of ending the process.
#define TRIREME_MPI(call) ::trireme::detail::check_mpi((call), #call)

namespace trireme::detail {

void check_mpi(int code, const char* call,
               std::source_location where = std::source_location::current());

// Between MPI_Init_thread and MPI_Finalize.
[[nodiscard]] bool mpi_is_up() noexcept;

}  // namespace trireme::detail
