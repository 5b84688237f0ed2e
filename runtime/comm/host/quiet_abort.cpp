// SPDX-License-Identifier: Apache-2.0

#include <dlfcn.h>

#include <cstddef>
#include <cstdlib>
#include <thread>

#include "runtime/comm/host/end_of_job.h"
#include "runtime/comm/host/mpi_check.h"

namespace trireme::detail {
namespace {

template <typename Function>
Function* find(void* library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

}  // namespace

void abort_mpi(int code) noexcept {
  // What MPI_Abort does after its banner, since Open MPI 2.0.
  if (auto* const abort = find<int(MPI_Comm, int)>(RTLD_DEFAULT, "ompi_mpi_abort"))
    abort(MPI_COMM_WORLD, code);
  MPI_Abort(MPI_COMM_WORLD, code);
}

void abort_before_mpi(int code) noexcept {
  // Not under srun, which prints no banner and gives an aborted job a code of its own.
  if (std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr || std::getenv("PMIX_RANK") == nullptr) return;
  // Open MPI brings PMIx along unless it was built with the system's; both calls are the same in
  // all versions that have this name.
  void* const library = ::dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return;
  auto* const init = find<int(void*, void*, std::size_t)>(library, "PMIx_Init");
  auto* const abort = find<int(int, const char*, void*, std::size_t)>(library, "PMIx_Abort");
  if (init == nullptr || abort == nullptr || init(nullptr, nullptr, 0) != 0) return;
  std::this_thread::sleep_for(time_to_read_output);
  abort(code, "", nullptr, 0);
}

}  // namespace trireme::detail
