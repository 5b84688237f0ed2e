// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <set>
#include <sstream>

#include "launch/campaign/cluster/job_control.h"
#include "launch/campaign/cluster/slurm_text.h"
#include "launch/run/file_tail.h"
#include "runtime/base/error.h"
#include "runtime/base/process.h"

namespace trireme::campaign {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) {
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

class SlurmControl final : public JobControl {
 public:
  explicit SlurmControl(const CampaignFile& file);

  Offers offers(const std::vector<LayoutOption>& options, const std::vector<std::string>& excluded,
                const Attempt* with_own) override;
  JobReport look(const Attempt& attempt) override;
  std::string submit(Attempt& attempt, std::optional<double> seconds,
                     const std::vector<std::string>& excluded) override;
  void stop(const Attempt& attempt, bool at_once) override;

 private:
  [[nodiscard]] std::vector<std::string> partitions() const {
    return file_.slurm.partitions.empty() ? std::vector<std::string>{""} : file_.slurm.partitions;
  }
  // sbatch's arguments for a job, without its script.
  [[nodiscard]] std::vector<std::string> request(const std::string& partition, std::int64_t nodes,
                                                 std::optional<double> seconds,
                                                 const std::vector<std::string>& excluded) const;
  // Asks whether and when `nodes` could start at `partition`; adds to `found`.
  void test(const std::string& partition, std::int64_t nodes,
            const std::vector<std::string>& excluded, Offers& found, bool& refused_for_good) const;
  [[nodiscard]] std::string number_of(const Attempt& attempt, bool& answered) const;
  [[nodiscard]] JobReport report_of(const std::map<std::string, std::string>& fields,
                                    const Attempt& attempt) const;
  [[nodiscard]] JobReport from_accounting(const Attempt& attempt, const std::string& job) const;
  [[nodiscard]] std::vector<std::string> hosts_in(const std::string& list) const;

  const CampaignFile& file_;
  std::string script_;
};

SlurmControl::SlurmControl(const CampaignFile& file)
    : file_(file), script_(required_script("slurm/train.sbatch")) {
  for (const char* const program : {"sbatch", "sinfo", "squeue", "scontrol", "scancel"}) {
    if (in_path(program)) continue;
    fail(ExitCode::config,
         "{}: hosts: not given, so Slurm starts the jobs, and there is no {} in PATH; load Slurm's "
         "module, or name hosts for mpirun",
         file.path, program);
  }
  // The batch script's program; and no requeue, since the campaign asks for what fits next.
  if (::setenv("TRIREME_BINARY", own_binary().c_str(), 0) != 0 ||
      ::setenv("TRIREME_MAX_REQUEUES", "0", 1) != 0 ||
      ::setenv("TRIREME_START_RETRIES", "0", 0) != 0 ||
      (file.health_check && ::setenv("TRIREME_HEALTH_CHECK", "1", 1) != 0))
    system_failed("setenv", "TRIREME_BINARY");
}

std::vector<std::string> SlurmControl::request(const std::string& partition, std::int64_t nodes,
                                               std::optional<double> seconds,
                                               const std::vector<std::string>& excluded) const {
  std::vector<std::string> words = {"sbatch", fmt::format("--nodes={}", nodes),
                                    fmt::format("--ntasks-per-node={}", file_.ranks_per_node)};
  double minutes = static_cast<double>(file_.slurm.minutes);
  if (seconds) {
    const double allowed = std::max(1.0, *seconds / 60);
    minutes = minutes > 0 ? std::min(minutes, allowed) : allowed;
  }
  if (minutes > 0) words.push_back(fmt::format("--time={}", static_cast<std::int64_t>(minutes)));
  if (!partition.empty()) words.push_back("--partition=" + partition);
  if (!file_.slurm.account.empty()) words.push_back("--account=" + file_.slurm.account);
  if (!file_.slurm.qos.empty()) words.push_back("--qos=" + file_.slurm.qos);
  if (!excluded.empty()) words.push_back(fmt::format("--exclude={}", fmt::join(excluded, ",")));
  words.insert(words.end(), file_.slurm.options.begin(), file_.slurm.options.end());
  return words;
}

void SlurmControl::test(const std::string& partition, std::int64_t nodes,
                        const std::vector<std::string>& excluded, Offers& found,
                        bool& refused_for_good) const {
  std::vector<std::string> words = request(partition, nodes, {}, excluded);
  words.insert(words.end(), {"--test-only", script_, file_.config});
  const ToolAnswer answer = ask(words);
  const std::string said = answer.errors + answer.output;
  const auto start = expected_start(said);
  if (answer.ok() && start) {
    const double wait = *start - static_cast<double>(std::time(nullptr));
    // Slurm rounds up to its scheduler's next cycle.
    found.offers.push_back({partition, nodes, wait > 5 ? wait : 0.0});
    return;
  }
  const std::string words_of_slurm = answer.last_words();
  refused_for_good = is_permanent(said);
  found.problem =
      fmt::format("{} nodes{}: {}{}", nodes, partition.empty() ? "" : " of partition " + partition,
                  words_of_slurm, advice_for(said));
}

Offers SlurmControl::offers(const std::vector<LayoutOption>& options,
                            const std::vector<std::string>& excluded, const Attempt* with_own) {
  Offers found;
  std::size_t refused = 0;
  for (const std::string& partition : partitions()) {
    std::vector<std::string> words = {"sinfo", "-h", "-N", "-o", "%N|%T"};
    if (!partition.empty()) words.insert(words.end(), {"-p", partition});
    const ToolAnswer answer = ask(words);
    if (!answer.ok()) {
      found.problem = "sinfo: " + answer.last_words();
      continue;
    }
    const bool same_place = with_own != nullptr && with_own->place == partition;
    const auto idle = static_cast<std::int64_t>(
        idle_nodes(answer.output, excluded,
                   same_place ? with_own->hosts : std::vector<std::string>{})
            .size());
    // The most nodes that could start now, and counts to wait for.
    std::set<std::int64_t> counts;
    for (const LayoutOption& option : options) {
      if (option.nodes <= idle) counts = {option.nodes};
    }
    if (with_own != nullptr) {
      for (const std::int64_t nodes : counts)
        found.offers.push_back({.place = partition, .nodes = nodes});
      continue;
    }
    counts.insert({options.front().nodes, options.back().nodes});
    bool for_good = false;
    for (const std::int64_t nodes : counts) {
      test(partition, nodes, excluded, found, for_good);
      if (for_good) break;
    }
    if (for_good) ++refused;
  }
  found.permanent = found.offers.empty() && refused == partitions().size();
  return found;
}

std::vector<std::string> SlurmControl::hosts_in(const std::string& list) const {
  if (list.empty() || list == "(null)") return {};
  const ToolAnswer answer = ask({"scontrol", "show", "hostnames", list});
  return answer.ok() ? lines_of(answer.output) : std::vector<std::string>{};
}

// The job's number from its name, if a campaign was killed before it stored the number.
std::string SlurmControl::number_of(const Attempt& attempt, bool& answered) const {
  answered = true;
  if (!attempt.job.empty()) return attempt.job;
  const ToolAnswer queue = ask({"squeue", "-h", "-t", "all", "--name=" + attempt.name, "-o", "%A"});
  if (!queue.ok()) {
    answered = false;
    return {};
  }
  if (const auto lines = lines_of(queue.output); !lines.empty()) return lines.back();
  // Finished jobs leave the queue after minutes; without accounting nothing more is known.
  const auto day = static_cast<std::time_t>(attempt.submitted) - 60;
  std::tm local{};
  ::localtime_r(&day, &local);
  std::array<char, 32> since{};
  static_cast<void>(std::strftime(since.data(), since.size(), "%Y-%m-%dT%H:%M:%S", &local));
  if (!in_path("sacct")) return {};
  const ToolAnswer past = ask(
      {"sacct", "-X", "-n", "-P", "--name=" + attempt.name, "-S", since.data(), "-o", "JobIDRaw"});
  const auto lines = past.ok() ? lines_of(past.output) : std::vector<std::string>{};
  return lines.empty() ? "" : lines.back();
}

JobReport SlurmControl::report_of(const std::map<std::string, std::string>& fields,
                                  const Attempt& attempt) const {
  const auto field = [&](const char* name) {
    const auto found = fields.find(name);
    return found == fields.end() ? std::string() : found->second;
  };
  JobReport report{.job = field("JobId"), .hosts = attempt.hosts, .state = field("JobState")};
  const std::string& state = report.state;
  if (report.hosts.empty()) report.hosts = hosts_in(field("NodeList"));
  report.started = local_seconds(field("StartTime")).value_or(0);
  report.ended = local_seconds(field("EndTime")).value_or(0);
  if (state == "PENDING" || state == "REQUEUED" || state == "REQUEUE_HOLD" ||
      state == "SPECIAL_EXIT") {
    report.kind = JobReport::Kind::waiting;
    report.started = 0;
    report.state = fmt::format("{} ({})", state, field("Reason"));
  } else if (state == "RUNNING" || state == "CONFIGURING" || state == "COMPLETING" ||
             state == "SUSPENDED" || state == "STOPPED" || state == "SIGNALING" ||
             state == "STAGE_OUT" || state == "RESIZING") {
    report.kind = JobReport::Kind::running;
  } else {
    report.kind = JobReport::Kind::ended;
    const std::string code = field("ExitCode");
    const int number = std::atoi(code.c_str());
    report.code = code_in_log(runs::end_of_file(attempt_log(file_, attempt)));
    // The exit code is the job's own only in these two states; in others it was ended from outside.
    if (!report.code && (state == "COMPLETED" || state == "FAILED")) report.code = number;
    const ToolAnswer nodes = ask({"sinfo", "-h", "-N", "-o", "%N|%T"});
    for (const std::string& node : broken_nodes(nodes.output)) {
      if (std::ranges::find(report.hosts, node) != report.hosts.end())
        report.lost_hosts.push_back(node);
    }
  }
  return report;
}

JobReport SlurmControl::from_accounting(const Attempt& attempt, const std::string& job) const {
  JobReport report{.kind = JobReport::Kind::ended, .job = job, .hosts = attempt.hosts};
  report.code = code_in_log(runs::end_of_file(attempt_log(file_, attempt)));
  report.state = "over, and no longer in the queue";
  if (!in_path("sacct")) return report;
  const ToolAnswer past =
      ask({"sacct", "-X", "-n", "-P", "-j", job, "-o", "State,Start,End,NodeList"});
  const auto lines = past.ok() ? lines_of(past.output) : std::vector<std::string>{};
  if (lines.empty()) return report;
  std::istringstream line(lines.back());
  std::string start, end, nodes;
  std::getline(line, report.state, '|');
  std::getline(line, start, '|');
  std::getline(line, end, '|');
  std::getline(line, nodes, '|');
  report.started = local_seconds(start).value_or(0);
  report.ended = local_seconds(end).value_or(0);
  if (report.hosts.empty()) report.hosts = hosts_in(nodes);
  return report;
}

JobReport SlurmControl::look(const Attempt& attempt) {
  JobReport report;
  // The submitting command may still be running.
  if (attempt.job.empty() && attempt_is_locked(attempt_directory(file_, attempt))) {
    report.state = "an sbatch of an earlier start is still running";
    return report;
  }
  bool answered = false;
  const std::string job = number_of(attempt, answered);
  if (!answered) {
    report.state = "Slurm does not answer";
    return report;
  }
  if (job.empty()) {
    report.kind = JobReport::Kind::absent;
    return report;
  }
  const ToolAnswer shown = ask({"scontrol", "show", "job", "-o", job});
  if (!shown.ok()) {
    if (shown.errors.find("nvalid job id") != std::string::npos)
      return from_accounting(attempt, job);
    report.state = "Slurm does not answer: " + shown.last_words();
    return report;
  }
  return report_of(job_fields(shown.output), attempt);
}

std::string SlurmControl::submit(Attempt& attempt, std::optional<double> seconds,
                                 const std::vector<std::string>& excluded) {
  const auto lock = try_attempt_lock(attempt_directory(file_, attempt));
  if (!lock) return "another job holds its lock";
  std::vector<std::string> words = request(attempt.place, attempt.nodes, seconds, excluded);
  words.insert(words.end(), {"--parsable", "--no-requeue", "--job-name=" + attempt.name,
                             "--comment=trireme campaign " + file_.directory,
                             "--output=" + attempt_log(file_, attempt), script_});
  for (const std::string& word : train_arguments(file_, attempt))
    words.push_back(word);
  const ToolAnswer answer = ask(words, 120, &*lock);
  if (!answer.ok())
    return fmt::format("{}{}", answer.last_words(), advice_for(answer.errors + answer.output));
  const auto lines = lines_of(answer.output);
  // "1234", or "1234;cluster".
  if (!lines.empty()) attempt.job = lines.back().substr(0, lines.back().find(';'));
  return {};
}

void SlurmControl::stop(const Attempt& attempt, bool at_once) {
  if (attempt.job.empty()) return;
  // Cancels a pending job. In a running one the batch script signals the ranks.
  static_cast<void>(ask({"scancel", "--state=PENDING", attempt.job}));
  if (at_once)
    static_cast<void>(ask({"scancel", attempt.job}));
  else if (attempt.phase == Attempt::Phase::running)
    static_cast<void>(ask({"scancel", "--batch", "--signal=TERM", attempt.job}));
}

}  // namespace

std::unique_ptr<JobControl> make_slurm_control(const CampaignFile& file) {
  return std::make_unique<SlurmControl>(file);
}

}  // namespace trireme::campaign
