// SPDX-License-Identifier: Apache-2.0
// A campaign's interface to a cluster: offers, jobs, hosts. Implemented for Slurm and for hosts
// with mpirun.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/campaign/decision.h"
#include "runtime/base/file.h"

#include "runtime/base/file.h"

namespace trireme::campaign {

struct Offers {
  std::vector<Offer> offers{};
  std::string problem{};   // why there are no offers, or too few
  bool permanent = false;  // retrying does not help: wrong account, wrong partition
};

struct JobReport {
  enum class Kind : std::uint8_t {
    unknown,  // no answer: no action is safe
    absent,   // no job of that name was submitted
    waiting,
    running,
    ended
  };
  Kind kind = Kind::unknown;
  std::string job{};
  std::vector<std::string> hosts{};
  double started = 0, ended = 0;  // 0: unknown
  std::optional<int> code{};      // exit code of the run, if known
  std::string state{};            // "PREEMPTED", or why it waits
  std::vector<std::string> lost_hosts{};
};

class JobControl {
 public:
  virtual ~JobControl() = default;

  // What could start. `with_own`: treats that job's nodes as free, and reports only nodes free now.
  [[nodiscard]] virtual Offers offers(const std::vector<LayoutOption>& options,
                                      const std::vector<std::string>& excluded,
                                      const Attempt* with_own) = 0;
  // The job of `attempt`, by its number or else its name.
  [[nodiscard]] virtual JobReport look(const Attempt& attempt) = 0;
  // Submits it; sets its job and hosts if they are known at once. Returns the reason of a refusal,
  // or "". A refused job may still exist: the caller checks.
  [[nodiscard]] virtual std::string submit(Attempt& attempt, std::optional<double> seconds,
                                           const std::vector<std::string>& excluded) = 0;
  // Stops it with a checkpoint, or before it starts.
  virtual void stop(const Attempt& attempt, bool at_once) = 0;
};

[[nodiscard]] std::unique_ptr<JobControl> make_slurm_control(const CampaignFile& file);
[[nodiscard]] std::unique_ptr<JobControl> make_host_control(const CampaignFile& file);

[[nodiscard]] std::string attempt_directory(const CampaignFile& file, const Attempt& attempt);
[[nodiscard]] std::string attempt_log(const CampaignFile& file, const Attempt& attempt);
// "CONFIG --set ..." of an attempt: the arguments of `trireme train`.
[[nodiscard]] std::vector<std::string> train_arguments(const CampaignFile& file,
                                                       const Attempt& attempt);

// The lock of an attempt, which a job, or the command that submits it, inherits: it is free when
// the last process that has it has ended, whatever became of the campaign. Open-file-description
// locks, which NFS 4 keeps for all hosts. Nothing if another process holds it. Raises
// ExitCode::config if the file system has no locks.
[[nodiscard]] std::optional<FileDescriptor> try_attempt_lock(const std::string& directory);
// False if the file is missing.
[[nodiscard]] bool attempt_is_locked(const std::string& directory);

}  // namespace trireme::campaign
