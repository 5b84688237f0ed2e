// SPDX-License-Identifier: Apache-2.0
#include "launch/cli/one_process.h"

#include <CLI/CLI.hpp>
#include <limits>
#include <optional>
#include <utility>

#include "launch/guard.h"
#include "runtime/base/environment.h"
#include "runtime/base/error.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/mpi.h"

namespace trireme {
namespace {

std::int64_t ranks_of_mpirun() {
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  return environment_number("OMPI_COMM_WORLD_SIZE", 1, most).value_or(1);
}

}  // namespace

void run_on_one_process(const std::function<void()>& work) {
  // mpirun reports a failure if ranks leave before the one that ends the job with its error, and
  // may hang if they are then in MPI_Finalize, so they wait first.
  std::optional<MpiEnvironment> job;
  if (ranks_of_mpirun() > 1) {
    job.emplace(nullptr, nullptr);
    set_process_label(job->rank(), job->size());
  }
  if (launcher_rank() == 0) work();
  if (job) job->world()->barrier();
}

void on_one_process(CLI::App& command, std::function<void()> work) {
  command.callback([work = std::move(work)] { run_on_one_process(work); });
}

void require_no_ranks(const CLI::App& command) {
  if (const auto ranks = ranks_of_mpirun(); ranks > 1)
    fail(ExitCode::config,
         "trireme {0}: starts jobs itself and was started {1} times by mpirun; call it without "
         "mpirun",
         command.get_name(), ranks);
}

}  // namespace trireme
