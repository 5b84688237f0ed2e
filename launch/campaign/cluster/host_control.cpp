// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

#include "launch/campaign/cluster/job_control.h"
#include "launch/campaign/cluster/job_end.h"
#include "launch/run/file_tail.h"
#include "runtime/base/environment.h"
#include "runtime/base/error.h"
#include "runtime/base/process.h"

namespace trireme::campaign {
namespace {

constexpr double probe_seconds = 15;

// The words of a file "started" or "ended".
std::vector<std::string> words_in(const std::string& path) {
  std::istringstream text(runs::end_of_file(path));
  std::vector<std::string> words;
  for (std::string word; text >> word;)
    words.push_back(word);
  return words;
}

// Whether a process of this host is attempt.sh. Files in /proc report no size.
bool is_script(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/cmdline", process));
  const std::string command{std::istreambuf_iterator<char>(file), {}};
  return command.find("attempt.sh") != std::string::npos;
}

class HostControl final : public JobControl {
 public:
  explicit HostControl(const CampaignFile& file)
      : file_(file),
        script_(required_script("campaign/cluster/attempt.sh")),
        launcher_(required_script("mpi_run.sh")) {
    if (!in_path("mpirun")) {
      fail(ExitCode::config,
           "{}: there is no mpirun in PATH; load Open MPI's module, or remove hosts and let Slurm "
           "start the jobs",
           file.where("hosts"));
    }
  }

  Offers offers(const std::vector<LayoutOption>& options, const std::vector<std::string>& excluded,
                const Attempt* with_own) override;
  JobReport look(const Attempt& attempt) override;
  std::string submit(Attempt& attempt, std::optional<double> seconds,
                     const std::vector<std::string>& excluded) override;
  void stop(const Attempt& attempt, bool at_once) override;

 private:
  // The hosts that answer and see the program and the campaign's directory; `problem` says why
  // others do not.
  std::vector<std::string> answering(const std::vector<std::string>& hosts,
                                     std::string& problem) const;

  const CampaignFile& file_;
  std::string script_, launcher_;
  std::vector<std::string> up_{};  // from the newest offers
};

std::vector<std::string> HostControl::answering(const std::vector<std::string>& hosts,
                                                std::string& problem) const {
  const std::string test = fmt::format("test -x {} && test -d {}", shell_word(own_binary()),
                                       shell_word(file_.directory));
  const std::vector<ToolAnswer> answers = ask_hosts(hosts, test, probe_seconds);
  std::vector<std::string> up;
  std::vector<std::string> reasons;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (answers[i].ok()) {
      up.push_back(hosts[i]);
    } else {
      const bool sees_nothing = answers[i].code == 1 && answers[i].errors.empty();
      reasons.push_back(fmt::format("{}: {}", hosts[i],
                                    sees_nothing ? "cannot see the program, or " + file_.directory
                                                 : answers[i].last_words()));
    }
  }
  problem = fmt::format("{}", fmt::join(reasons, "; "));
  return up;
}

Offers HostControl::offers(const std::vector<LayoutOption>& options,
                           const std::vector<std::string>& excluded, const Attempt* with_own) {
  std::vector<std::string> hosts;
  for (const std::string& host : file_.hosts) {
    if (std::ranges::find(excluded, host) == excluded.end()) hosts.push_back(host);
  }
  Offers found;
  const auto least = static_cast<std::size_t>(options.front().nodes);
  // A running job on all hosts can get no better offer.
  if (with_own != nullptr && static_cast<std::size_t>(with_own->nodes) >= hosts.size())
    return found;
  up_ = answering(hosts, found.problem);
  if (up_.size() < least) {
    found.problem = fmt::format(
        "{} of {} hosts answer and are not left out, but a job needs {}{}{}", up_.size(),
        file_.hosts.size(), least, found.problem.empty() ? "" : ": ", found.problem);
  } else {
    found.offers.push_back({.nodes = static_cast<std::int64_t>(up_.size())});
  }
  return found;
}

JobReport HostControl::look(const Attempt& attempt) {
  const std::string place = attempt_directory(file_, attempt);
  JobReport report{.hosts = attempt.hosts};
  const bool locked = attempt_is_locked(place);
  const auto started = words_in(place + "/started"), ended = words_in(place + "/ended");
  if (started.size() >= 3) {
    report.job = fmt::format("process {} of {}", started[1], started[0]);
    report.started = std::strtod(started[2].c_str(), nullptr);
  }
  if (locked) {
    // Also while ranks outlive their script: nothing else may start until they have ended.
    report.kind = JobReport::Kind::running;
    return report;
  }
  if (started.empty()) {
    report.kind = JobReport::Kind::absent;
    return report;
  }
  report.kind = JobReport::Kind::ended;
  if (ended.size() >= 2) {
    report.code = static_cast<int>(std::strtol(ended[0].c_str(), nullptr, 10));
    report.ended = std::strtod(ended[1].c_str(), nullptr);
  } else {
    report.code = static_cast<int>(ExitCode::communication);
    report.state = "its script was killed";
  }
  if (next_step(*report.code) != NextStep::restart) return report;
  std::string problem;
  const auto up = answering(attempt.hosts, problem);
  for (const std::string& host : attempt.hosts) {
    if (std::ranges::find(up, host) == up.end()) report.lost_hosts.push_back(host);
  }
  return report;
}

std::string HostControl::submit(Attempt& attempt, std::optional<double> seconds,
                                const std::vector<std::string>& excluded) {
  attempt.hosts.clear();
  for (const std::string& host : up_) {
    if (static_cast<std::int64_t>(attempt.hosts.size()) < attempt.nodes &&
        std::ranges::find(excluded, host) == excluded.end())
      attempt.hosts.push_back(host);
  }
  if (static_cast<std::int64_t>(attempt.hosts.size()) < attempt.nodes)
    return "hosts were lost in the meantime";
  const std::string place = attempt_directory(file_, attempt);
  const auto lock = try_attempt_lock(place);
  if (!lock) return "another job holds its lock";
  std::vector<std::string> words = {script_, place, file_.health_check ? "check" : "no", launcher_};
  std::vector<std::string> slots;
  for (const std::string& host : attempt.hosts)
    slots.push_back(fmt::format("{}:{}", host, file_.ranks_per_node));
  words.insert(words.end(), {"--host", fmt::format("{}", fmt::join(slots, ",")), "-np",
                             fmt::format("{}", attempt.ranks), own_binary(), "--"});
  for (const std::string& word : train_arguments(file_, attempt))
    words.push_back(word);
  if (seconds) {
    words.emplace_back("--set");
    words.push_back(fmt::format("run.deadline_minutes={:.3f}", std::max(*seconds, 1.0) / 60));
  }
  leave_running(words, attempt_log(file_, attempt), *lock);
  return {};
}

void HostControl::stop(const Attempt& attempt, bool at_once) {
  const auto started = words_in(attempt_directory(file_, attempt) + "/started");
  if (started.size() < 2 || started[0] != host_name() ||
      !attempt_is_locked(attempt_directory(file_, attempt)))
    return;
  const auto process = static_cast<pid_t>(std::strtol(started[1].c_str(), nullptr, 10));
  // The number may belong to another process by now.
  if (process > 1 && is_script(process))
    ::kill(at_once ? -process : process, at_once ? SIGKILL : SIGTERM);
}

}  // namespace

std::unique_ptr<JobControl> make_host_control(const CampaignFile& file) {
  return std::make_unique<HostControl>(file);
}

std::string attempt_directory(const CampaignFile& file, const Attempt& attempt) {
  return fmt::format("{}/attempts/{:04}", file.directory, attempt.number);
}

std::string attempt_log(const CampaignFile& file, const Attempt& attempt) {
  return attempt_directory(file, attempt) + "/log.txt";
}

std::vector<std::string> train_arguments(const CampaignFile& file, const Attempt& attempt) {
  std::vector<std::string> words = {file.config};
  const auto set = [&](const std::string& setting) {
    words.emplace_back("--set");
    words.push_back(setting);
  };
  for (const std::string& setting : file.set)
    set(setting);
  for (const std::string& setting : attempt.settings)
    set(setting);
  set("run.directory=" + file.run_directory());
  set("parallel.search=false");
  return words;
}

}  // namespace trireme::campaign
