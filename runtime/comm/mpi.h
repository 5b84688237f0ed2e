// SPDX-License-Identifier: Apache-2.0
// The MPI process environment and the MPI back end. No mpi.h here.
#pragma once

#include <memory>
#include <string>

#include "runtime/comm/communicator.h"

namespace trireme {

// Owns MPI_Init_thread(MPI_THREAD_MULTIPLE)/MPI_Finalize. Started without mpirun it is a world of
// one. Raises ExitCode::communication when the library cannot give MPI_THREAD_MULTIPLE.
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
  // The world group on a duplicate of MPI_COMM_WORLD; Single when it has one rank.
  [[nodiscard]] std::unique_ptr<Communicator> world() const;

 private:
  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1;
};

// "Open MPI v4.1.4"; usable before MPI is up.
[[nodiscard]] std::string mpi_library_version();

// Ends the whole job at once with `code`; usable before MPI is up and from any thread. Flushes
// output first.
[[noreturn]] void abort_job(int code) noexcept;

}  // namespace trireme
