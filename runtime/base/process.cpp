// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/process.h"

#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <sstream>
#include <thread>

#include "runtime/base/clock.h"
#include "runtime/base/environment.h"
#include "runtime/base/output_directory.h"

extern "C" char** environ;

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int took_too_long = 124, not_there = 127;
// Above descriptors that this process and shells open.
constexpr int lock_descriptor = 99;
constexpr std::size_t longest_answer = std::size_t{16} << 20U;

sigset_t set_of(std::span<const int> signals) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : signals)
    ::sigaddset(&set, signal);
  return set;
}

void check_call(int error, const char* call) {
  if (error != 0) library_failed(call, std::strerror(error));
}

}  // namespace

pid_t spawn(const std::vector<std::string>& command, const Spawn& how) {
  posix_spawn_file_actions_t files;
  check_call(::posix_spawn_file_actions_init(&files), "posix_spawn_file_actions_init");
  const std::unique_ptr<posix_spawn_file_actions_t, int (*)(posix_spawn_file_actions_t*)> files_end(
      &files, ::posix_spawn_file_actions_destroy);
  posix_spawnattr_t attributes;
  check_call(::posix_spawnattr_init(&attributes), "posix_spawnattr_init");
  const std::unique_ptr<posix_spawnattr_t, int (*)(posix_spawnattr_t*)> attributes_end(
      &attributes, ::posix_spawnattr_destroy);
  // This process blocks signals and ignores one (guard.cpp); its children must not.
  const sigset_t none = set_of({}), usual = set_of(std::array{SIGXFSZ});
  check_call(::posix_spawnattr_setsigmask(&attributes, &none), "posix_spawnattr_setsigmask");
  check_call(::posix_spawnattr_setsigdefault(&attributes, &usual), "posix_spawnattr_setsigdefault");
  constexpr short signals = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
  check_call(::posix_spawnattr_setflags(&attributes, static_cast<short>(signals | how.flags)),
             "posix_spawnattr_setflags");
  const int held = how.lock == nullptr ? stream_as_here : how.lock->get();
  for (const auto& [from, to] : {std::pair(how.input, 0), std::pair(how.output, 1),
                                 std::pair(how.errors, 2), std::pair(held, lock_descriptor)}) {
    if (from == no_stream)
      check_call(::posix_spawn_file_actions_addopen(&files, to, "/dev/null", O_RDWR, 0),
                 "posix_spawn_file_actions_addopen");
    else if (from != stream_as_here)
      check_call(::posix_spawn_file_actions_adddup2(&files, from, to),
                 "posix_spawn_file_actions_adddup2");
  }
  if (how.closes_rest)
    check_call(::posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1),
               "posix_spawn_file_actions_addclosefrom_np");
  std::vector<char*> words;
  for (const std::string& word : command)
    words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  pid_t process = -1;
  if (const int error =
          ::posix_spawnp(&process, words[0], &files, &attributes, words.data(), environ);
      error != 0)
    fail(how.failure, "{}: cannot be started: {}", command[0], std::strerror(error));
  return process;
}

int kill_and_wait(pid_t process, bool group) {
  ::kill(group ? -process : process, SIGKILL);  // no effect on one that has ended
  int status = 0;
  while (::waitpid(process, &status, 0) < 0) {
    if (errno != EINTR) system_failed("waitpid", "");
  }
  return status;
}

namespace {

// The exit code of a finished process; empty while it runs.
std::optional<int> end_of(pid_t process) {
  int status = 0;
  const pid_t ended = ::waitpid(process, &status, WNOHANG);
  if (ended < 0 && errno != EINTR) system_failed("waitpid", "");
  if (ended != process) return {};
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// A file in memory: reading to its end never blocks, even if others still write.
FileDescriptor memory_file() {
  FileDescriptor file(::memfd_create("answer", MFD_CLOEXEC));
  if (!file.is_open()) system_failed("memfd_create", "");
  return file;
}

std::uint64_t size_of(const FileDescriptor& file) {
  struct stat status {};
  return ::fstat(file.get(), &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

// `patience`: maximum seconds, with retries.
ToolAnswer ask_patiently(const std::vector<std::string>& words,
                         const std::function<double()>& patience, const FileDescriptor* lock) {
  try {
    const auto start = std::chrono::steady_clock::now();
    const FileDescriptor output = memory_file(), errors = memory_file();
    const pid_t process = spawn(words, {.flags = POSIX_SPAWN_SETPGROUP,
                                        .output = output.get(),
                                        .errors = errors.get(),
                                        .lock = lock});
    std::optional<int> code;
    while (!(code = end_of(process)) && seconds_since(start) < patience() &&
           size_of(output) + size_of(errors) < longest_answer)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    if (!code) kill_and_wait(process, true);
    return {.code = code.value_or(took_too_long),
            .output = bytes_at(output, 0, size_of(output)),
            .errors = bytes_at(errors, 0, size_of(errors))};
  } catch (const Error& error) {
    return {.code = not_there, .output = {}, .errors = error.what()};
  }
}

bool is_here(const std::string& host) {
  const std::string own = host_name();
  return host == "localhost" || host == own || own.starts_with(host + ".") ||
         host.starts_with(own + ".");
}

std::vector<std::string> remote_shell() {
  const char* agent = std::getenv("OMPI_MCA_plm_rsh_agent");
  if (agent == nullptr) agent = std::getenv("PRTE_MCA_plm_ssh_agent");  // Open MPI 5
  if (agent == nullptr || *agent == '\0')
    return {"ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"};
  std::istringstream text(agent);
  std::vector<std::string> words;
  for (std::string word; text >> word && word != ":";)
    words.push_back(word);
  return words;
}

}  // namespace

std::string ToolAnswer::last_words() const {
  std::istringstream lines(errors.empty() ? output : errors);
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    if (line.find_first_not_of(" \t\r") != std::string::npos) last = line;
  }
  if (code == took_too_long) return "no answer in time";
  return last.empty() ? fmt::format("exit code {}", code) : last;
}

ToolAnswer ask(const std::vector<std::string>& words, double seconds, const FileDescriptor* lock) {
  return ask_patiently(
      words, [seconds] { return seconds; }, lock);
}

std::vector<ToolAnswer> ask_hosts(const std::vector<std::string>& hosts, const std::string& command,
                                  double seconds, const std::vector<double>& least) {
  std::vector<ToolAnswer> answers(hosts.size());
  std::vector<std::thread> threads;
  std::atomic<double> slowest{seconds};  // of those that answered
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (is_here(hosts[i])) continue;
    threads.emplace_back([&, i] {
      std::vector<std::string> words = remote_shell();
      words.insert(words.end(), {hosts[i], command});
      const auto patience = [&, i] {
        return least.empty() ? seconds : std::min(seconds, std::max(3 * slowest, least[i]));
      };
      answers[i] = ask_patiently(words, patience, nullptr);
      if (answers[i].ok()) slowest = seconds_since(begin);
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  return answers;
}

Job::Job(const std::vector<std::string>& command, std::string log, const FileDescriptor* lock)
    : log_(std::move(log)) {
  FileDescriptor output;
  if (!log_.empty())
    output = OutputDirectory(parent_directory(log_), ExitCode::config)
                 .create(fs::path(log_).filename(), O_WRONLY);
  process_ = spawn(command, {.flags = POSIX_SPAWN_SETPGROUP,
                             .output = output.get(),
                             .errors = output.get(),
                             .lock = lock});
}

Job::~Job() {
  if (!code_) kill_and_wait(process_, true);
}

std::optional<int> Job::poll() {
  if (!code_) code_ = end_of(process_);
  return code_;
}

void Job::terminate() {
  if (!code_) ::kill(-process_, SIGTERM);
}

void Job::signal(int number) const {
  if (!code_) ::kill(process_, number);
}

void leave_running(const std::vector<std::string>& words, const std::string& log,
                   const FileDescriptor& lock) {
  const FileDescriptor output =
      OutputDirectory(parent_directory(log), ExitCode::config)
          .open(fs::path(log).filename().string(), O_WRONLY | O_CREAT | O_APPEND);
  static_cast<void>(spawn(words, {.flags = POSIX_SPAWN_SETSID,
                                  .output = output.get(),
                                  .errors = output.get(),
                                  .lock = &lock}));
}

void hold_signals(std::span<const int> signals) {
  const sigset_t set = set_of(signals);
  if (::sigprocmask(SIG_BLOCK, &set, nullptr) != 0) system_failed("sigprocmask", "");
}

int signal_within(std::span<const int> signals, double seconds) {
  const sigset_t set = set_of(signals);
  const auto whole = static_cast<std::time_t>(seconds);
  const timespec time{.tv_sec = whole,
                      .tv_nsec = static_cast<long>(1e9 * (seconds - static_cast<double>(whole)))};
  return std::max(0, ::sigtimedwait(&set, nullptr, &time));
}

void restore_hangup() {
  struct sigaction now {};
  if (::sigaction(SIGHUP, nullptr, &now) == 0 && now.sa_handler != SIG_IGN)
    std::signal(SIGHUP, SIG_DFL);
}

void enlarge_thread_stacks() {
  constexpr std::size_t enough = std::size_t{8} << 20U;
  pthread_attr_t usual;
  std::size_t bytes = 0;
  check_call(::pthread_getattr_default_np(&usual), "pthread_getattr_default_np");
  check_call(::pthread_attr_getstacksize(&usual, &bytes), "pthread_attr_getstacksize");
  check_call(::pthread_attr_setstacksize(&usual, std::max(bytes, enough)),
             "pthread_attr_setstacksize");
  check_call(::pthread_setattr_default_np(&usual), "pthread_setattr_default_np");
  ::pthread_attr_destroy(&usual);
}

bool in_path(const std::string& program) {
  const char* const path = std::getenv("PATH");
  std::istringstream places(path == nullptr ? "" : path);
  for (std::string place; std::getline(places, place, ':');) {
    if (::access((place + "/" + program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

std::string own_binary() {
  std::error_code error;
  const fs::path path = fs::read_symlink("/proc/self/exe", error);
  if (error) fail(ExitCode::internal, "/proc/self/exe: {}", error.message());
  return path.string();
}

std::string own_script(const std::string& name) {
  std::vector<fs::path> places;
  if (const char* const home = std::getenv("TRIREME_HOME")) places.emplace_back(home);
  for (fs::path place = fs::path(own_binary()).parent_path(); place != place.parent_path();
       place = place.parent_path())
    places.push_back(place);
  for (const fs::path& place : places) {
    for (const fs::path& below : {place, place / "share" / "trireme"}) {
      const fs::path script = below / name;
      if (::access(script.c_str(), R_OK) == 0) return script.string();
    }
  }
  return {};
}

std::string required_script(const std::string& name) {
  std::string script = own_script("launch/" + name);
  if (script.empty()) {
    fail(ExitCode::config,
         "launch/{} was not found in any directory above {}; set TRIREME_HOME to the repository",
         name, own_binary());
  }
  return script;
}

std::string shell_word(const std::string& word) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  std::string text = "'";
  for (const char letter : word)
    text += letter == '\'' ? "'\\''" : std::string(1, letter);
  return text + "'";
}

}  // namespace trireme
