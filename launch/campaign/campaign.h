// SPDX-License-Identifier: Apache-2.0
// A training over many jobs: asks for offers, submits a job, follows it, and continues from the
// checkpoint under the layout that fits the next nodes. One process, which may be killed and
// restarted at any time: it writes its state to DIRECTORY/campaign.json before it acts.
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
  // Checks everything before any side effect. Takes the directory's lock; raises ExitCode::config
  // if another process has it.
  explicit Campaign(CampaignFile file);

  // Runs until the training is done, the budget is used, or SIGINT or SIGTERM, which leave the job
  // running. Returns the exit code: 0 done, the code of a run that cannot succeed, 75 can go on
  // later, 93 gave up. `stop`: ends the job and the campaign.
  [[nodiscard]] int run(bool stop);

 private:
  using Outcome = CampaignState::Outcome;

  // One poll and its action; returns seconds until the next one.
  double poll();
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
  // Reports once what it waits for.
  void waits(const std::string& text);
  // False if a signal came.
  [[nodiscard]] bool pause(double seconds);
  void save();
  // Retries while the disk is full, reported once.
  void retry_on_disk_full(const std::function<void()>& write);
  [[nodiscard]] int exit_code() const;

  CampaignFile file_;
  CampaignLayouts layouts_;
  Rules rules_;
  std::unique_ptr<JobControl> control_;
  RunOwner owner_;
  CampaignState state_;
  Journal journal_;
  bool stop_again_ = true;  // the process that asked may have died before it sent the signal
  bool interrupted_ = false;
};

// The file with which `trireme campaign stop` stops the running process.
[[nodiscard]] std::string stop_file_in(const std::string& directory);

}  // namespace trireme::campaign
