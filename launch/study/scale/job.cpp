// SPDX-License-Identifier: Apache-2.0
#include "launch/study/scale/job.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <memory>

#include "runtime/base/output_directory.h"

extern "C" char** environ;

namespace trireme::scale {
namespace {

// These functions return the error.
void check_spawn(int error, const std::string& call, const std::string& subject) {
  if (error != 0) fail(ExitCode::config, "{}: {} failed: {}", subject, call, std::strerror(error));
}

pid_t spawn(const std::vector<std::string>& command, const std::string& log) {
  posix_spawn_file_actions_t files;
  check_spawn(::posix_spawn_file_actions_init(&files), "posix_spawn_file_actions_init", log);
  const std::unique_ptr<posix_spawn_file_actions_t, int (*)(posix_spawn_file_actions_t*)> files_end(
      &files, ::posix_spawn_file_actions_destroy);
  check_spawn(::posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0),
              "posix_spawn_file_actions_addopen", "/dev/null");
  const FileDescriptor output = OutputDirectory(parent_directory(log), ExitCode::config)
                                    .create(std::filesystem::path(log).filename(), O_WRONLY);
  for (const int stream : {1, 2})
    check_spawn(::posix_spawn_file_actions_adddup2(&files, output.get(), stream),
                "posix_spawn_file_actions_adddup2", log);
  posix_spawnattr_t attributes;
  check_spawn(::posix_spawnattr_init(&attributes), "posix_spawnattr_init", log);
  const std::unique_ptr<posix_spawnattr_t, int (*)(posix_spawnattr_t*)> attributes_end(
      &attributes, ::posix_spawnattr_destroy);
  // The study blocks signals; its jobs must not.
  sigset_t none;
  ::sigemptyset(&none);
  check_spawn(::posix_spawnattr_setsigmask(&attributes, &none), "posix_spawnattr_setsigmask", log);
  check_spawn(
      ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK),
      "posix_spawnattr_setflags", log);
  std::vector<char*> words;
  for (const std::string& word : command)
    words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  pid_t process = -1;
  check_spawn(::posix_spawnp(&process, words[0], &files, &attributes, words.data(), environ),
              "posix_spawnp", command[0]);
  return process;
}

}  // namespace

Job::Job(const std::vector<std::string>& command, const std::string& log)
    : log_(log), process_(spawn(command, log)) {}

Job::~Job() {
  if (code_) return;
  ::kill(-process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
}

std::optional<int> Job::poll() {
  if (code_) return code_;
  int status = 0;
  const pid_t ended = ::waitpid(process_, &status, WNOHANG);
  if (ended < 0) system_failed("waitpid", log_);
  if (ended == process_) code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return code_;
}

void Job::terminate() {
  if (!code_) ::kill(-process_, SIGTERM);
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

}  // namespace trireme::scale
