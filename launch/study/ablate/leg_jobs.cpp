// SPDX-License-Identifier: Apache-2.0
#include "launch/study/ablate/leg_jobs.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "runtime/base/atomic_file.h"

namespace trireme::ablate {
namespace {

namespace fs = std::filesystem;

// train.sbatch reads a line of flags, parted by spaces, for each task of an array.
std::string sweep_line(const Task& task) {
  std::string line;
  for (auto word = task.arguments.begin() + 2; word != task.arguments.end(); ++word) {
    if (word->find_first_of(" \t") != std::string::npos) {
      fail(ExitCode::config,
           "--launcher array: '{}' has a space, which the lines of an array cannot have; use "
           "--launcher sbatch",
           *word);
    }
    line += (line.empty() ? "" : " ") + *word;
  }
  return line + "\n";
}

}  // namespace

std::string Task::file(const char* kind) const {
  return fmt::format("{}/steps-{:08}-{:08}.{}", place, from + 1, to, kind);
}

LegJobs::LegJobs(const Study& study, const scale::Launcher& launcher, const RunnerOptions& options)
    : study_(study), launcher_(launcher), options_(options) {}

bool LegJobs::has_room() const {
  return options_.array ? running_.empty() : std::ssize(running_) < options_.jobs;
}

std::vector<std::string> LegJobs::array_command(const std::vector<Task>& tasks,
                                                const std::string& wave) const {
  std::vector<std::string> words =
      launcher_.command(study_.ranks, {"train", "--sweep", wave, study_.config}, wave + ".%a.log");
  const std::string range = fmt::format("--array=1-{}%{}", tasks.size(), options_.jobs);
  words.insert(words.begin() + 1, range);
  return words;
}

void LegJobs::start(std::vector<Task> tasks) {
  Running running{.tasks = std::move(tasks), .job = nullptr};
  if (options_.array) {
    const std::string directory = options_.directory + "/waves";
    fs::create_directories(directory);
    std::string wave;
    do {
      wave = fmt::format("{}/{:03}.txt", directory, ++waves_);
    } while (fs::exists(wave));  // of an earlier start
    std::string lines;
    for (const Task& task : running.tasks)
      lines += sweep_line(task);
    write_file(wave, lines, ExitCode::config);
    const std::vector<std::string> command = array_command(running.tasks, wave);
    std::vector<std::string> words;
    std::ranges::transform(command, std::back_inserter(words), shell_word);
    write_file(wave + ".sh", fmt::format("#!/bin/sh\n{}\n", fmt::join(words, " ")),
               ExitCode::config);
    running.job = std::make_unique<Job>(command, wave + ".sbatch.txt");
  } else {
    const Task& task = running.tasks.front();
    running.job = std::make_unique<Job>(
        launcher_.command(study_.ranks, task.arguments, task.slurm_log()), task.log());
  }
  running_.push_back(std::move(running));
}

void LegJobs::cancel_waiting() {
  if (launcher_.kind != scale::LauncherKind::sbatch) return;
  std::vector<std::string> command{"scancel", "--state=PENDING", "--name=" + launcher_.job_name};
  const std::size_t options = command.size();
  std::error_code error;
  for (const char* const place : {"/waves", "/runs"}) {
    for (fs::recursive_directory_iterator file(options_.directory + place, error), end;
         !error && file != end; file.increment(error)) {
      const std::string name = file->path().filename().string();
      if (name == "run") file.disable_recursion_pending();
      if (!name.ends_with(".sbatch.txt") && !name.ends_with(".log.txt")) continue;
      const std::string job = scale::Launcher::slurm_job_of(file->path().string());
      if (!job.empty()) command.push_back(job);
    }
  }
  if (command.size() > options) (void)ask(command);
}

void LegJobs::cancel() {
  for (Running& running : running_) {
    if (running.cancelled) continue;
    if (launcher_.kind == scale::LauncherKind::sbatch) {
      // No number yet until it is submitted.
      const std::string job = scale::Launcher::slurm_job_of(running.job->log());
      if (job.empty()) continue;
      (void)ask({"scancel", job});
    } else {
      running.job->terminate();
    }
    running.cancelled = true;
  }
}

std::vector<LegJobs::Ended> LegJobs::collect() {
  std::vector<Ended> ended;
  for (auto running = running_.begin(); running != running_.end();) {
    const std::optional<int> code = running->job->poll();
    if (!code) {
      ++running;
      continue;
    }
    for (std::size_t i = 0; i < running->tasks.size(); ++i) {
      Task& task = running->tasks[i];
      std::string log = running->job->log();
      if (options_.array) {
        log = fmt::format("{}.{}.log", log.substr(0, log.rfind(".sbatch.txt")), i + 1);
        std::error_code error;
        if (!fs::exists(log, error)) log = running->job->log();
      } else if (std::error_code error; launcher_.kind == scale::LauncherKind::sbatch &&
                                        fs::exists(task.slurm_log(), error)) {
        log = task.slurm_log();
      }
      ended.push_back({.task = std::move(task), .code = *code, .log = log});
    }
    running = running_.erase(running);
  }
  return ended;
}

std::string LegJobs::command_of(const Task& task) const {
  std::vector<std::string> words;
  for (const std::string& word : launcher_.command(study_.ranks, task.arguments, task.slurm_log()))
    words.push_back(shell_word(word));
  return fmt::format("{}", fmt::join(words, " "));
}

}  // namespace trireme::ablate
