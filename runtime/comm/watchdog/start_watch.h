// SPDX-License-Identifier: Apache-2.0
// Private to this room: a deadline on what the watchdog cannot see yet: the waits for other ranks
// from the beginning of main until a job's watched groups are there, and in MPI_Finalize, when they
// are gone. A rank that does not come ends the job with ExitCode::communication and a message that
// names it where that can be known.
//
// Note [The end of a job that does not start]
// A thread counts the seconds that the process waits while it runs (a suspended job is not late).
// When they are over it asks every rank, by notes in a group of its own, what it does; all answer
// whatever their other threads do. With all answers, or after two seconds, it prints who did not
// answer and who is elsewhere. Of several ranks that notice the lowest speaks; the others give it
// some seconds. Before there is a group nobody can be asked: then the processes of this host tell
// (ranks_here.h), and the ranks of a host that knows who is missing speak first.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/comm/host/transfers.h"

namespace trireme {

inline constexpr const char* start_seconds_variable = "TRIREME_START_SECONDS";
// How long a job may take to come together; 120 unless the variable says otherwise, 0: for ever.
// Raises ExitCode::config for what is no such number.
[[nodiscard]] double start_seconds();

// One in a process, from the start of MpiEnvironment to its end.
class StartWatch {
 public:
  StartWatch();
  ~StartWatch();
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;

  // `job` is a group of all ranks in which nobody else sends notes; null: ranks ask no more.
  void ask_over(std::unique_ptr<Transfers> job);

 private:
  class Thread;
  std::unique_ptr<Thread> thread_;
};

// While it lives this thread waits for other ranks. Without a StartWatch nobody looks.
class StartWait {
 public:
  // What SIGTERM does where the program handles it by itself, after a step: there is no run to stop
  // before the ranks have joined.
  enum class Stage {
    rendezvous,  // ends the process at once
    mpi_init,    // the same, unless it is over within seconds
    joined
  };
  // `what` is a literal, "MPI_Init"; `seconds` as start_seconds().
  explicit StartWait(std::string_view what, Stage stage = Stage::joined,
                     double seconds = start_seconds());
  ~StartWait();
  StartWait(const StartWait&) = delete;
  StartWait& operator=(const StartWait&) = delete;

  struct Entry {
    std::string_view what;
    Stage stage = Stage::joined;
    double limit = 0;   // seconds; 0: none
    double waited = 0;  // seconds in which the process ran
  };

 private:
  std::list<Entry>::iterator entry_;
};

}  // namespace trireme
