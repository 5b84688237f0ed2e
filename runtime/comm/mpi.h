// SPDX-License-Identifier: Apache-2.0
// This process's rank in its job. Does not include mpi.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"

namespace trireme {

class StartWatch;

// Of ranks that are not connected, when all of them fail alike: rank 0 alone prints it.
class SharedError : public Error {
  using Error::Error;
};

// Under mpirun or srun it owns MPI_Init_thread(MPI_THREAD_MULTIPLE)/MPI_Finalize. Otherwise
// processes with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT connect by TCP (Kubernetes,
// torchrun) if they share TRIREME_SECRET or a host; any other process is a job of one. Raises
// ExitCode::communication if MPI lacks MPI_THREAD_MULTIPLE, if ranks cannot be reached, and if MPI
// takes each of several launched processes for a job of one. A job that is not complete within
// TRIREME_START_SECONDS ends.
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
  // By rank: the first rank of its host.
  [[nodiscard]] const std::vector<int>& hosts() const { return hosts_; }
  // "mpirun", "srun", "RANK and WORLD_SIZE" or "none".
  [[nodiscard]] const std::string& launcher() const { return launcher_; }
  // A new world group; Single if it has one rank. Collective.
  [[nodiscard]] std::unique_ptr<Communicator> world() const;

 private:
  void start_mpi(int* argc, char*** argv);
  void start_tcp();

  std::unique_ptr<StartWatch> watch_;
  std::string launcher_ = "none";
  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1;
  std::vector<int> hosts_{0};
};

// The start limit without TRIREME_START_SECONDS: 120 s, and a quarter of a second for each rank
// beyond 128, since launchers and rendezvous take ranks one after the other.
[[nodiscard]] double usual_start_seconds(int ranks);

// "Open MPI v4.1.4"; usable before MPI is up.
[[nodiscard]] std::string mpi_library_version();

// Prints "[rank 0/4 node7] error: <text>" on stderr and in the kept log (base/log.h). Bypasses
// stdio, whose locks a blocked thread may hold; drops what cannot be written.
void print_error(const std::string& text) noexcept;

// Flushes output, then ends the whole job with `code`; usable before MPI is up and from any thread.
// Output from before stays the last on the screen.
[[noreturn]] void abort_job(int code) noexcept;

// For a command that ends on every rank with the same non-zero `code` and no error. Waits for the
// other ranks, then ends the job without mpirun's banner; without mpirun returns the code.
[[nodiscard]] int end_job_alike(int code) noexcept;

}  // namespace trireme
