// SPDX-License-Identifier: Apache-2.0
#include "launch/commands/one_process.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <optional>
#include <utility>

#include "launch/guard.h"
#include "runtime/base/error.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/mpi.h"

namespace trireme {

void on_one_process(CLI::App& command, std::function<void()> work) {
  command.callback([work = std::move(work)] {
    const char* const ranks = std::getenv("OMPI_COMM_WORLD_SIZE");
    // mpirun takes it for a failure when ranks leave before one that ends the job with its error,
    // and may hang when they are in MPI_Finalize then: they wait before that.
    std::optional<MpiEnvironment> job;
    if (ranks != nullptr && std::atoi(ranks) > 1) {
      job.emplace(nullptr, nullptr);
      set_process_label(job->rank(), job->size());
    }
    if (launcher_rank() == 0) work();
    if (job) job->world()->barrier();
  });
}

}  // namespace trireme
