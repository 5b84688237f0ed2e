// SPDX-License-Identifier: Apache-2.0
// Private to this module: a deadline on waits that the watchdog cannot see: from the start of main
// until the job's watched groups exist, and in MPI_Finalize, after they are gone. A rank that does
// not come ends the job with ExitCode::communication and a message that names it if possible.
//
// Note [The end of a job that does not start]
// A thread counts the seconds that the process waits while it runs (a suspended job is not late).
// At the limit it asks every rank, by notes in its own group, what it does; all ranks answer,
// whatever their other threads do. With all answers, or after two seconds, it prints who did not
// answer and who is elsewhere. If several ranks notice, the lowest reports; the others give it some
// seconds. Before the group exists, the processes of this host are the only source (ranks_here),
// and ranks of a host that knows who is missing report first.
#pragma once

#include <list>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/comm/host/transfers.h"

namespace trireme {

inline constexpr const char* start_seconds_variable = "TRIREME_START_SECONDS";
// How long a job's ranks may take to connect: usual_start_seconds() unless the variable is set, 0:
// for ever. Raises ExitCode::config if it is not a valid number.
[[nodiscard]] double start_seconds();

// One per process, from the start of MpiEnvironment to its end.
class StartWatch {
 public:
  StartWatch();
  ~StartWatch();
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;

  // `job` is a group of all ranks whose notes only this uses; null: no more questions.
  void ask_over(std::unique_ptr<Transfers> job);

 private:
  class Thread;
  std::unique_ptr<Thread> thread_;
};

// Marks that this thread waits for other ranks. Has no effect without a StartWatch.
class StartWait {
 public:
  // What SIGTERM does in a program that otherwise stops after a step: before the ranks have joined
  // there is no run to stop.
  enum class Stage {
    rendezvous,  // ends the process at once
    mpi_init,    // the same, unless MPI_Init ends within seconds
    joined
  };
  // `what` is a literal, "MPI_Init"; `seconds` like start_seconds().
  explicit StartWait(std::string_view what, Stage stage = Stage::joined,
                     double seconds = start_seconds());
  ~StartWait();
  StartWait(const StartWait&) = delete;
  StartWait& operator=(const StartWait&) = delete;

  struct Entry {
    std::string_view what;
    Stage stage = Stage::joined;
    double limit = 0;   // seconds; 0: none
    double waited = 0;  // seconds that the process ran
  };

 private:
  std::list<Entry>::iterator entry_;
};

// the job's ranks on this host, from the kernel's process table, because
// ranks cannot be asked before MPI_Init has ended.
struct RanksHere {
  std::set<int> found;
  // "rank 1 is stopped (process 812 on node7)"
  std::vector<std::string> missing;
};

[[nodiscard]] RanksHere ranks_here();

}  // namespace trireme
