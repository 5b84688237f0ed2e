// SPDX-License-Identifier: Apache-2.0
#include "launch/campaign/supervisor.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <sstream>
#include <thread>

#include "launch/campaign/cluster/job_control.h"
#include "launch/campaign/cluster/job_end.h"
#include "launch/campaign/journal.h"
#include "launch/campaign/run_progress.h"
#include "launch/engine/state/start_times.h"
#include "launch/run/file_tail.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/environment.h"
#include "runtime/base/process.h"
#include "runtime/config/yaml/document.h"
#include "runtime/telemetry/run_directory.h"

namespace trireme::campaign {
namespace {

namespace fs = std::filesystem;

constexpr int requeue = static_cast<int>(ExitCode::requeue);
constexpr int given_up = static_cast<int>(ExitCode::given_up);
// With less time left, an allocation is too short for another start.
constexpr double least_seconds_left = 300;
constexpr std::int64_t most_doublings = 4;  // of the backoff

// run.directory of a config file, which may be another program's with unknown keys.
std::string directory_in(const std::string& file) {
  const config::Node root = config::parse_document(config::read_text_file(file), file);
  const config::Node* node = &root;
  for (const std::string_view key : {"run", "directory"}) {
    const auto found = std::ranges::find(node->keys, key);
    if (found == node->keys.end()) return {};
    node = &node->items[static_cast<std::size_t>(found - node->keys.begin())];
  }
  return node->text;
}

// From the command line, else from its config file, or the run directory itself.
std::string run_of(const SuperviseOptions& options) {
  constexpr std::string_view key = "run.directory=";
  std::string set = options.run, named;
  std::error_code ignored;
  for (const std::string& word : options.command) {
    const auto at = word.rfind(key);
    if (options.run.empty() && at != std::string::npos) set = word.substr(at + key.size());
  }
  if (!set.empty()) return set;
  for (const std::string& word : options.command) {
    if (fs::is_regular_file(RunDirectory::config_in(word), ignored))
      named = word;
    else if (word.ends_with(".yaml") && fs::is_regular_file(word, ignored))
      named = directory_in(word);
  }
  if (named.empty())
    fail(ExitCode::config, "supervise: the run directory is unknown; give it with --run DIR");
  return named;
}

OutputDirectory directory_for_logs(const std::string& run) {
  std::error_code error;
  fs::create_directories(run, error);
  const ExitCode code = code_of_failed_write(error.value(), ExitCode::config);
  if (error) fail(code, "{}: cannot be created: {}", run, error.message());
  return OutputDirectory(run, ExitCode::config).subdirectory("supervise");
}

std::string with(std::string word, std::string_view name, const std::string& value) {
  for (std::size_t at = 0; (at = word.find(name, at)) != std::string::npos; at += value.size())
    word.replace(at, name.size(), value);
  return word;
}

std::string number_or_none(std::int64_t step) {
  return step > 0 ? fmt::format("{}", step) : "none";
}

void set_variable(const char* name, std::int64_t value) {
  if (::setenv(name, fmt::format("{}", value).c_str(), 1) != 0) system_failed("setenv", name);
}

class Supervisor {
 public:
  explicit Supervisor(const SuperviseOptions& options)
      : options_(options), run_(run_of(options)), logs_(directory_for_logs(run_)) {
    // A job in the background of a shell script ignores SIGINT.
    struct sigaction interrupt {};
    if (::sigaction(SIGINT, nullptr, &interrupt) != 0) system_failed("sigaction", "SIGINT");
    if (interrupt.sa_handler != SIG_IGN) signals_.push_back(SIGINT);
    hold_signals(signals_);
  }

  int run() {
    if (const auto code = take_run()) return *code;
    for (const auto& file : fs::directory_iterator(logs_.path()))
      start_ += file.path().filename().string().starts_with("incarnation_") ? 1 : 0;
    reached_ = read_progress(run_, 0).checkpoint;
    if (!find_hosts()) return end(requeue, "stopped from outside");
    for (std::int64_t earlier = 0;; ++earlier, ++start_) {
      set_variable("TRIREME_EARLIER_STARTS", earlier);
      if (const auto code = conclude(start_once())) return *code;
    }
  }

 private:
  struct Ended {
    int code = 0;
    RunProgress progress{};
    bool passing = false;  // temporary
    bool made_steps = false;
  };

  // Write errors are ignored: the disk may be full.
  void write(const char* name, int flags, const std::string& text) const {
    try {
      const FileDescriptor file = logs_.open(name, O_WRONLY | O_CREAT | flags);
      write_fully(file, logs_.path_of(name), std::as_bytes(std::span(text)), ExitCode::internal);
    } catch (const Error&) {
      return;
    }
  }

  void note(const std::string& text) const {
    const auto now =
        std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
    const std::string line = fmt::format("{:%F %T}.{:03} supervise: {}\n",
                                         fmt::localtime(std::chrono::system_clock::to_time_t(now)),
                                         now.time_since_epoch().count() % 1000, text);
    fmt::print(stderr, "{}", line);
    write("supervise.log", O_APPEND, line);
  }

  int end(int code, const std::string& reason) const {
    note(fmt::format("{}; exit code {}", reason, code));
    return code;
  }

  // Takes one signal and passes it to the job; false if none comes in time.
  bool wait_for_signal(double seconds, const Job* job = nullptr) {
    const int signal = signal_within(signals_, seconds);
    stopping_ = stopping_ || signal == SIGINT || signal == SIGTERM;
    if (signal > 0 && signal != SIGCHLD && job != nullptr) job->signal(signal);
    return signal > 0;
  }

  void pause(double seconds) {
    const double until = wall_clock() + seconds;
    do
      wait_for_signal(std::clamp(until - wall_clock(), 0.0, 1.0));
    while (!stopping_ && wall_clock() < until);
  }

  // The job inherits the lock: it is free when the last process of an earlier job has ended. The
  // lock file names the supervisor's host and process. Returns the exit code if it may not go on.
  std::optional<int> take_run() {
    for (bool said = false;; said = true) {
      if (auto lock = try_attempt_lock(logs_.path())) {
        write("lock", O_TRUNC, fmt::format("{} {}\n", host_name(), ::getpid()));
        lock_ = std::move(*lock);
        return {};
      }
      std::istringstream holder(runs::end_of_file(logs_.path_of("lock")));
      std::string host = "another host";
      pid_t process = 0;
      holder >> host >> process;
      const bool is_here = host == host_name();
      if (is_here && process > 0 && ::kill(process, 0) == 0)
        return end(2, fmt::format("process {} already supervises this run", process));
      if (!said)
        note(fmt::format("the job of process {}{} still runs: waiting for its end", process,
                         is_here ? ", which is gone," : " on " + host));
      pause(1);
      if (stopping_) return end(requeue, "stopped from outside");
    }
  }

  // Sets `here_`, the hosts that answer, and `ranks_`.
  void probe_hosts() {
    std::vector<std::string> names, up, away;
    std::vector<double> least;
    for (const auto& [host, ranks] : options_.hosts) {
      names.push_back(host);
      least.push_back(message_.starts_with(host + " is lost") ? 1 : 2);
    }
    const auto seconds = environment_number("TRIREME_PROBE_SECONDS", 1, 3600).value_or(5);
    const auto answers = ask_hosts(names, "true", static_cast<double>(seconds), least);
    std::int64_t most = 0;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::int64_t ranks = options_.hosts[i].second;
      most += answers[i].ok() ? ranks : 0;
      if (answers[i].ok())
        up.push_back(fmt::format("{}:{}", names[i], ranks));
      else
        away.push_back(names[i]);
    }
    here_ = fmt::format("{}", fmt::join(up, ","));
    ranks_ = options_.ranks.empty() ? most : 0;
    for (const std::int64_t ranks : options_.ranks)
      if (ranks <= most) ranks_ = std::max(ranks_, ranks);
    const std::string before = std::exchange(away_, fmt::format("{}", fmt::join(away, ", ")));
    if (!away_.empty() && away_ != before) note(away_ + ": no answer, left out");
    if (away_.empty() && !before.empty()) note("all hosts answer again");
  }

  // False if it was stopped before enough hosts answered.
  bool find_hosts() {
    for (bool said = false; !options_.hosts.empty() && !stopping_; said = true) {
      probe_hosts();
      if (ranks_ >= std::max<std::int64_t>(1, options_.min_ranks)) break;
      if (!said)
        note(fmt::format("hosts for {} of at least {} ranks answer: waiting for more", ranks_,
                         options_.min_ranks));
      pause(5);
    }
    return !stopping_;
  }

  // Whether the run's disk takes data. On a full disk the log may lack the failure.
  [[nodiscard]] bool is_disk_writable() const {
    const std::string name = fmt::format("room.{}", ::getpid());
    try {
      write_file(logs_.path_of(name), std::string(65536, '\0'), ExitCode::internal);
    } catch (const Error&) {
      return false;
    }
    logs_.remove(name);
    return true;
  }

  // Starts the command, passes signals on and shows its log until it ends. Output goes to a file:
  // processes that outlive a job would hold a pipe open.
  int run_job(const std::vector<std::string>& words) {
    const auto started = static_cast<std::int64_t>(wall_clock());
    set_variable("TRIREME_START_TIME", started);
    std::vector<std::string> command = {"setpriv", "--pdeathsig", "TERM"};
    if (!ask({"setpriv", "--pdeathsig", "TERM", "true"}).ok()) command.clear();
    command.insert(command.end(), words.begin(), words.end());
    const std::string log = logs_.path_of(fmt::format("incarnation_{:03}.log", start_));
    std::optional<int> code;
    try {
      Job job(command, log, &lock_);
      Job viewer(
          {"tail", "-n", "+1", "-s", "0.1", "-f", fmt::format("--pid={}", job.process()), log});
      while (!(code = job.poll()))
        wait_for_signal(0.5, &job);
      while (!viewer.poll())
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    } catch (const Error& error) {
      note(error.what());
      code = static_cast<int>(error.code());
    }
    while (wait_for_signal(0))
      continue;
    const std::string script = own_script("launch/job.sh");
    if (*code != 0 && !script.empty()) (void)ask({script, fmt::format("{}", started)});
    // Removes times, which differ from run to run.
    static const std::regex times(R"([0-9]+\.[0-9]+)");
    message_ = std::regex_replace(last_error(runs::end_of_file(log, std::uint64_t{256} << 10U)),
                                  times, "#");
    return *code;
  }

  Ended start_once() {
    std::vector<std::string> words;
    for (const std::string& word : options_.command)
      words.push_back(with(with(word, "{hosts}", here_), "{ranks}", fmt::format("{}", ranks_)));
    note(fmt::format("start {}: {}", start_, fmt::join(words, " ")));
    const std::int64_t step_before = read_progress(run_, 0).step;
    Ended ended{.code = run_job(words), .progress = read_progress(run_, 0)};
    const std::int64_t step = ended.progress.step;
    ended.made_steps = step > 0 && step != step_before;
    if (ended.code != 0 && ended.code != static_cast<int>(ExitCode::non_finite) &&
        next_step(ended.code) != NextStep::requeue) {
      ended.passing = may_pass(message_) || !is_disk_writable();
      if (ended.passing && message_.empty()) message_ = fmt::format("the disk of {} is full", run_);
    }
    note(fmt::format("start {} ended with exit code {} at step {}, newest checkpoint {}: {}",
                     start_, ended.code, number_or_none(step),
                     number_or_none(ended.progress.checkpoint),
                     message_.empty() ? "no message" : message_));
    return ended;
  }

  // The exit code if nothing is to be restarted; else waits until the restart.
  std::optional<int> conclude(const Ended& last) {
    const NextStep next = next_step(last.code);
    if (next == NextStep::none) return end(last.code, "done");
    if (stopping_) return end(last.code, "stopped from outside");
    if (next == NextStep::give_up && !last.passing &&
        std::ranges::find(options_.restart_on, last.code) == options_.restart_on.end())
      return end(last.code, "starting again would not help");
    if (std::exchange(reached_, last.progress.checkpoint) != last.progress.checkpoint) {
      without_progress_ = doublings_ = 0;
    } else if (!last.passing) {
      ++without_progress_;
    }
    if (without_progress_ >= options_.no_progress)
      return end(given_up,
                 fmt::format("{} starts without a newer checkpoint", options_.no_progress));
    if (next == NextStep::requeue && allocation_times().left.value_or(86400) <= least_seconds_left)
      return end(requeue, "the allocation ends; requeue the job");
    const std::string hosts_before = here_;
    if (!find_hosts()) return end(requeue, "stopped from outside");
    if (next == NextStep::requeue) return {};

    const std::string before = std::exchange(
        failure_, fmt::format("{} at {}: {}", last.code, last.progress.step, message_));
    if (!last.passing && failure_ == before && here_ == hosts_before)
      return end(given_up, "the same failure twice in a row");
    if (++failures_ > options_.max_restarts)
      return end(last.code, fmt::format("all {} restarts are used", options_.max_restarts));
    const std::string restart = fmt::format("restart {} of {}", failures_, options_.max_restarts);
    if (here_ != hosts_before) {
      note(fmt::format("{}, at once, on {}", restart, here_));
      return {};
    }
    const std::int64_t delay = options_.backoff << std::min(doublings_++, most_doublings);
    const std::int64_t seconds = last.made_steps ? std::min<std::int64_t>(delay, 1) : delay;
    note(fmt::format("{} in {} s", restart, seconds));
    pause(static_cast<double>(seconds));
    if (stopping_) return end(last.code, "stopped from outside");
    return {};
  }

  const SuperviseOptions& options_;
  std::string run_;
  OutputDirectory logs_;
  std::vector<int> signals_{SIGTERM, SIGUSR1, SIGCHLD};
  FileDescriptor lock_;
  bool stopping_ = false;
  std::int64_t start_ = 0;  // includes starts of earlier supervisors
  std::string here_{}, away_{};
  std::int64_t ranks_ = 0;
  std::string message_{},
      failure_{};  // of the last start: its last error; its code, step and message
  std::int64_t failures_ = 0, without_progress_ = 0, doublings_ = 0;
  std::int64_t reached_ = 0;  // step of the newest checkpoint
};

}  // namespace

int supervise(const SuperviseOptions& options) {
  return Supervisor(options).run();
}

}  // namespace trireme::campaign
