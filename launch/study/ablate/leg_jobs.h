// SPDX-License-Identifier: Apache-2.0
// Legs as jobs: one job each, or all that can begin as one Slurm array.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/process.h"
#include "launch/study/ablate/runner.h"

namespace trireme::ablate {

// One stretch of one seed.
struct Task {
  std::size_t seed = 0;  // index
  std::vector<std::size_t> members{};
  std::int64_t from = 0, to = 0;
  bool last = false;         // `to` is the end of its run
  std::string place{};       // directory of the run's own directory and logs
  std::string before{};      // place of the run that it goes on from; "" at the beginning
  std::uint64_t digest = 0;  // of what is run, wherever it lies
  std::vector<std::string> arguments{};  // of `trireme`

  [[nodiscard]] std::string run() const { return place + "/run"; }
  [[nodiscard]] std::string log() const { return file("log.txt"); }
  [[nodiscard]] std::string slurm_log() const { return file("slurm.txt"); }
  [[nodiscard]] std::string mark() const { return file("done.json"); }

 private:
  // "PLACE/steps-00000001-00000100.log.txt".
  [[nodiscard]] std::string file(const char* kind) const;
};

// Jobs that were started.
class LegJobs {
 public:
  LegJobs(const Study& study, const scale::Launcher& launcher, const RunnerOptions& options);

  // Whether another task, or a wave of them, may be started now.
  [[nodiscard]] bool has_room() const;
  [[nodiscard]] bool idle() const { return running_.empty(); }
  // One job of one task; of an array one job of all of `tasks`.
  void start(std::vector<Task> tasks);
  // Takes out of Slurm's queue what a start that was killed left waiting there: all of that is
  // started again, and two jobs would meet in one run directory.
  void cancel_waiting();
  // Asks all to end; again and again is the same as once.
  void cancel();
  struct Ended {
    Task task;
    int code = 0;
    std::string log;  // that has its last words
  };
  // Of jobs that have ended since the last call.
  [[nodiscard]] std::vector<Ended> collect();
  // The command that a user would give for the task by itself.
  [[nodiscard]] std::string command_of(const Task& task) const;

 private:
  struct Running {
    std::vector<Task> tasks;
    std::unique_ptr<Job> job;
    bool cancelled = false;
  };
  [[nodiscard]] std::vector<std::string> array_command(const std::vector<Task>& tasks,
                                                       const std::string& wave) const;

  const Study& study_;
  const scale::Launcher& launcher_;
  const RunnerOptions& options_;
  std::vector<Running> running_;
  int waves_ = 0;
};

}  // namespace trireme::ablate
