// SPDX-License-Identifier: Apache-2.0
// What a campaign needs of a cluster: offers, jobs, hosts. Slurm, and hosts with mpirun.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/campaign/decision.h"

namespace trireme::campaign {

struct Offers {
  std::vector<Offer> offers{};
  std::string problem{};   // why there are none, or not all
  bool permanent = false;  // it would be the same tomorrow: an account, a partition
};

struct JobReport {
  enum class Kind : std::uint8_t {
    unknown,  // nobody answers: nothing is known, nothing may be done
    absent,   // no job of that name was ever submitted
    waiting,
    running,
    ended
  };
  Kind kind = Kind::unknown;
  std::string job{};
  std::vector<std::string> hosts{};
  double started = 0, ended = 0;  // 0: not known
  std::optional<int> code{};      // of the run, where it is known
  std::string state{};            // "PREEMPTED", or why it waits
  std::vector<std::string> lost_hosts{};
};

class JobControl {
 public:
  virtual ~JobControl() = default;

  // What could start. `with_own`: as if the nodes of that job were free, and only what is free at
  // once.
  [[nodiscard]] virtual Offers offers(const std::vector<LayoutOption>& options,
                                      const std::vector<std::string>& excluded,
                                      const Attempt* with_own) = 0;
  // The job of `attempt`, by its number or else its name.
  [[nodiscard]] virtual JobReport look(const Attempt& attempt) = 0;
  // Submits it; sets its job and hosts where they are known at once. Why it was refused, or empty.
  // A refusal is no proof: the caller looks for it afterwards.
  [[nodiscard]] virtual std::string submit(Attempt& attempt, std::optional<double> seconds,
                                           const std::vector<std::string>& excluded) = 0;
  // Has it stop with a checkpoint, or never start.
  virtual void stop(const Attempt& attempt, bool at_once) = 0;
};

// `attempts`: directory that has one of each attempt.
[[nodiscard]] std::unique_ptr<JobControl> make_slurm_control(const CampaignFile& file);
[[nodiscard]] std::unique_ptr<JobControl> make_host_control(const CampaignFile& file);

[[nodiscard]] std::string attempt_directory(const CampaignFile& file, const Attempt& attempt);
[[nodiscard]] std::string attempt_log(const CampaignFile& file, const Attempt& attempt);
// "train CONFIG --set ..." of an attempt, without `train`.
[[nodiscard]] std::vector<std::string> train_arguments(const CampaignFile& file,
                                                       const Attempt& attempt);

}  // namespace trireme::campaign
