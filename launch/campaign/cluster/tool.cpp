// SPDX-License-Identifier: Apache-2.0
#include "launch/campaign/cluster/tool.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <thread>

#include "runtime/base/clock.h"
#include "runtime/base/output_directory.h"

extern "C" char** environ;

namespace trireme::campaign {
namespace {

constexpr int took_too_long = 124, not_there = 127;
// Above what this process and shells have open by themselves.
constexpr int lock_descriptor = 99;
constexpr std::size_t longest_answer = std::size_t{16} << 20U;

void check_call(int error, const char* call) {
  if (error != 0) library_failed(call, std::strerror(error));
}

// What a child gets, as posix_spawn wants it.
class Spawner {
 public:
  Spawner(short flags, const FileDescriptor* lock) {
    check_call(::posix_spawn_file_actions_init(&files_), "posix_spawn_file_actions_init");
    check_call(::posix_spawnattr_init(&attributes_), "posix_spawnattr_init");
    // A campaign blocks signals; what it starts must not.
    sigset_t none;
    ::sigemptyset(&none);
    check_call(::posix_spawnattr_setsigmask(&attributes_, &none), "posix_spawnattr_setsigmask");
    check_call(::posix_spawnattr_setflags(&attributes_,
                                          static_cast<short>(POSIX_SPAWN_SETSIGMASK | flags)),
               "posix_spawnattr_setflags");
    check_call(::posix_spawn_file_actions_addopen(&files_, 0, "/dev/null", O_RDONLY, 0),
               "posix_spawn_file_actions_addopen");
    if (lock != nullptr) give(lock->get(), lock_descriptor);
  }
  ~Spawner() {
    ::posix_spawn_file_actions_destroy(&files_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  Spawner(const Spawner&) = delete;
  Spawner& operator=(const Spawner&) = delete;

  void give(int from, int to) {
    check_call(::posix_spawn_file_actions_adddup2(&files_, from, to),
               "posix_spawn_file_actions_adddup2");
  }
  // The error, or 0.
  int start(const std::vector<std::string>& command, pid_t& process) {
    std::vector<char*> words;
    for (const std::string& word : command)
      words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    return ::posix_spawnp(&process, words[0], &files_, &attributes_, words.data(), environ);
  }

 private:
  posix_spawn_file_actions_t files_{};
  posix_spawnattr_t attributes_{};
};

struct Pipe {
  FileDescriptor reading, writing;
};
Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) system_failed("pipe2", "");
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

// Reads both streams until they end or the time is over; false then.
bool read_answer(const std::array<int, 2>& streams, ToolAnswer& answer, double seconds) {
  const auto start = std::chrono::steady_clock::now();
  const std::array<std::string*, 2> texts{&answer.output, &answer.errors};
  std::array<bool, 2> open{true, true};
  while (open[0] || open[1]) {
    const double left = seconds - seconds_since(start);
    if (left <= 0) return false;
    std::array<pollfd, 2> waits{};
    for (std::size_t i = 0; i < waits.size(); ++i)
      waits[i] = {.fd = open[i] ? streams[i] : -1, .events = POLLIN, .revents = 0};
    if (::poll(waits.data(), waits.size(), static_cast<int>(1e3 * left) + 1) < 0 && errno != EINTR)
      system_failed("poll", "");
    for (std::size_t i = 0; i < waits.size(); ++i) {
      if (waits[i].revents == 0) continue;
      std::array<char, 4096> bytes{};
      const ssize_t got = ::read(streams[i], bytes.data(), bytes.size());
      if (got > 0 && texts[i]->size() < longest_answer)
        texts[i]->append(bytes.data(), static_cast<std::size_t>(got));
      else if (got == 0 || (got < 0 && errno != EINTR))
        open[i] = false;
    }
  }
  return true;
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
  Pipe output = make_pipe(), errors = make_pipe();
  Spawner spawner(POSIX_SPAWN_SETPGROUP, lock);
  spawner.give(output.writing.get(), STDOUT_FILENO);
  spawner.give(errors.writing.get(), STDERR_FILENO);
  ToolAnswer answer;
  pid_t process = -1;
  if (const int error = spawner.start(words, process); error != 0) {
    answer.code = not_there;
    answer.errors = fmt::format("{}: {}", words[0], std::strerror(error));
    return answer;
  }
  output.writing = {};
  errors.writing = {};
  const bool in_time = read_answer({output.reading.get(), errors.reading.get()}, answer, seconds);
  if (!in_time) ::kill(-process, SIGKILL);
  int status = 0;
  while (::waitpid(process, &status, 0) < 0) {
    if (errno != EINTR) system_failed("waitpid", words[0]);
  }
  answer.code = !in_time            ? took_too_long
                : WIFEXITED(status) ? WEXITSTATUS(status)
                                    : 128 + WTERMSIG(status);
  return answer;
}

std::vector<ToolAnswer> ask_all(const std::vector<std::vector<std::string>>& commands,
                                double seconds) {
  std::vector<ToolAnswer> answers(commands.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < commands.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        answers[i] = ask(commands[i], seconds);
      } catch (const Error& error) {
        answers[i] = {.code = not_there, .output = {}, .errors = error.what()};
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  return answers;
}

void leave_running(const std::vector<std::string>& words, const std::string& log,
                   const FileDescriptor& lock) {
  const FileDescriptor output =
      OutputDirectory(parent_directory(log), ExitCode::config)
          .open(std::filesystem::path(log).filename().string(), O_WRONLY | O_CREAT | O_APPEND);
  Spawner spawner(POSIX_SPAWN_SETSID, &lock);
  spawner.give(output.get(), STDOUT_FILENO);
  spawner.give(output.get(), STDERR_FILENO);
  pid_t process = -1;
  if (const int error = spawner.start(words, process); error != 0)
    fail(ExitCode::config, "{}: cannot be started: {}", words[0], std::strerror(error));
}

}  // namespace trireme::campaign
