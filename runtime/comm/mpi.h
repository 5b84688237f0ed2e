// SPDX-License-Identifier: Apache-2.0
// This process's place in its job. No mpi.h here.
#pragma once

#include <memory>
#include <string>

#include "runtime/comm/communicator.h"

namespace trireme {

class StartWatch;

// Under mpirun or srun it owns MPI_Init_thread(MPI_THREAD_MULTIPLE)/MPI_Finalize. Without them,
// processes that have RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT find each other by TCP
// (Kubernetes, torchrun), where they share TRIREME_SECRET or are on one host; others are jobs of
// one. Raises ExitCode::communication when the library cannot give MPI_THREAD_MULTIPLE, when the
// others cannot be reached, and when a launcher started several processes that MPI takes for one
// each. A job that does not come together within TRIREME_START_SECONDS ends.
class MpiEnvironment {
 public:
  MpiEnvironment(int* argc, char*** argv);
  ~MpiEnvironment();
  MpiEnvironment(const MpiEnvironment&) = delete;
  MpiEnvironment& operator=(const MpiEnvironment&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] int local_rank() const { return local_rank_; }  // among the ranks of this host
  [[nodiscard]] int local_size() const { return local_size_; }
  // "mpirun", "srun", "RANK and WORLD_SIZE" or "none".
  [[nodiscard]] const std::string& launcher() const { return launcher_; }
  // A new world group; Single when it has one rank. Collective.
  [[nodiscard]] std::unique_ptr<Communicator> world() const;

 private:
  void start_mpi(int* argc, char*** argv);
  void start_tcp();

  std::unique_ptr<StartWatch> watch_;
  std::string launcher_ = "none";
  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1;
};

// "Open MPI v4.1.4"; usable before MPI is up.
[[nodiscard]] std::string mpi_library_version();

// "[rank 0/4 node7] error: <text>" on stderr and in the log that is kept (base/log.h). Past stdio,
// whose locks a blocked thread may hold; what cannot be written is lost.
void print_error(const std::string& text) noexcept;

// Ends the whole job at once with `code`; usable before MPI is up and from any thread. Flushes
// output first. What was printed before it stays the last thing on the screen.
[[noreturn]] void abort_job(int code) noexcept;

// For a command that ends with a `code` other than 0 on every rank alike and without an error.
// Waits for the other ranks, then ends the job without mpirun's banner; where there is none,
// returns the code.
[[nodiscard]] int end_job_alike(int code) noexcept;

}  // namespace trireme
