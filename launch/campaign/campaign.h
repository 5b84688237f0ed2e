// SPDX-License-Identifier: Apache-2.0
// A training that outlives its jobs: asks what could start, submits, follows, and goes on from the
// checkpoint under whatever layout fits what is there then. One process, which may be killed and
// started again at any time: what it must know stands in DIRECTORY/campaign.json before it acts.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "launch/campaign/cluster/job_control.h"
#include "launch/campaign/journal.h"
#include "runtime/telemetry/run_owner.h"

namespace trireme::campaign {

class Campaign {
 public:
  // Checks everything before it touches anything. Takes the directory's lock and raises
  // ExitCode::config where another process has it.
  explicit Campaign(CampaignFile file);

  // To the end of the training, of the budget, or of this process (SIGINT, SIGTERM), which leaves
  // the job alone. Gives the exit code: 0 done, that of a run that cannot succeed, 75 where it can
  // go on later, 93 given up. `stop`: ends the job and the campaign.
  [[nodiscard]] int run(bool stop);

 private:
  using Outcome = CampaignState::Outcome;

  // One look and what follows from it; seconds until the next one.
  double look_once();
  double next_attempt();
  double follow(Attempt& attempt);
  void submit(const Decision& decision);
  void update(Attempt& attempt, const JobReport& report);
  void ask_to_stop(Attempt& attempt, const std::string& reason);
  void finish(Attempt& attempt, const JobReport& report);
  void exclude_blamed(const Attempt& attempt, const JobReport& report, const std::string& log);
  void never_ran(Attempt& attempt, const std::string& reason);
  void end(Outcome outcome, const std::string& reason);
  [[nodiscard]] Offers offers_or_forgiven(double now);
  [[nodiscard]] std::optional<Decision> better(const Attempt& attempt, double now);
  [[nodiscard]] bool stop_is_asked() const;
  // What it waits for, said once.
  void waits(const std::string& text);
  // False where a signal came.
  [[nodiscard]] bool pause(double seconds);
  void save();
  // Again while the disk is full, said once.
  void when_there_is_room(const std::function<void()>& write);
  [[nodiscard]] int exit_code() const;

  CampaignFile file_;
  CampaignLayouts layouts_;
  Rules rules_;
  std::unique_ptr<JobControl> control_;
  RunOwner owner_;
  CampaignState state_;
  Journal journal_;
  bool stop_again_ = true;  // the signal may have died with the process that asked
  bool interrupted_ = false;
};

// What `trireme campaign stop` leaves for the process that runs.
[[nodiscard]] std::string stop_file_in(const std::string& directory);

}  // namespace trireme::campaign
