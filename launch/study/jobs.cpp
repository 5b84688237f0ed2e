// SPDX-License-Identifier: Apache-2.0
#include "launch/study/jobs.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <utility>

#include "launch/run/file_tail.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/line_reader.h"

namespace trireme::studies {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view array_log = ".sbatch.txt";

// train.sbatch reads one line of options per task of an array, separated by spaces.
std::string sweep_line(const StudyRun& run) {
  std::string line;
  for (auto word = run.arguments.begin() + 2; word != run.arguments.end(); ++word) {
    if (word->find_first_of(" \t") != std::string::npos) {
      fail(ExitCode::config,
           "--launcher array: '{}' has a space, which is not allowed in the lines of an array; use "
           "--launcher sbatch",
           *word);
    }
    line += (line.empty() ? "" : " ") + *word;
  }
  return line + "\n";
}

std::string shell_text(const std::vector<std::string>& command) {
  std::vector<std::string> words;
  std::ranges::transform(command, std::back_inserter(words), shell_word);
  return fmt::format("{}", fmt::join(words, " "));
}

bool is_file(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

}  // namespace

std::vector<std::string> Launcher::command(int ranks, const std::vector<std::string>& arguments,
                                           const std::string& job_log) const {
  std::vector<std::string> words;
  const std::string count = fmt::format("{}", ranks);
  switch (kind) {
    case LauncherKind::mpirun:
      words = {required_script("mpi_run.sh"), "-np", count};
      break;
    case LauncherKind::srun:
      words = {required_script("slurm/step_run.sh"), count};
      break;
    case LauncherKind::sbatch:
    case LauncherKind::array:
      // A requeued run would be measured from its checkpoint.
      words = {"sbatch",
               "--wait",
               "--parsable",
               "--no-requeue",
               "--ntasks=" + count,
               "--job-name=" + job_name,
               "--output=" + job_log};
      break;
  }
  words.insert(words.end(), options.begin(), options.end());
  if (kind == LauncherKind::srun) words.emplace_back("--");
  // The batch script adds `train` itself.
  words.push_back(is_batch() ? required_script("slurm/train.sbatch") : own_binary());
  words.insert(words.end(), arguments.begin() + (is_batch() ? 1 : 0), arguments.end());
  return words;
}

std::string Launcher::slurm_job_of(const std::string& log) {
  std::error_code error;
  if (!fs::is_regular_file(log, error)) return {};
  LineReader lines(log);
  // "1234", or "1234;cluster".
  while (const auto line = lines.next()) {
    const std::string_view number = line->substr(0, line->find(';'));
    if (!number.empty() && number.find_first_not_of("0123456789") == std::string_view::npos)
      return std::string(number);
  }
  return {};
}

Launcher make_launcher(const std::string& name, const std::string& options) {
  Launcher launcher;
  launcher.kind = name == "srun"     ? LauncherKind::srun
                  : name == "sbatch" ? LauncherKind::sbatch
                  : name == "array"  ? LauncherKind::array
                                     : LauncherKind::mpirun;
  std::istringstream words(options);
  for (std::string word; words >> word;)
    launcher.options.push_back(word);
  const std::string program = launcher.is_batch() ? "sbatch" : name;
  if (!in_path(program)) {
    fail(ExitCode::config, "--launcher: there is no {} in PATH; use {}", program,
         program == "mpirun" ? "srun or sbatch where Slurm is" : "mpirun, or load Slurm's module");
  }
  if (launcher.kind == LauncherKind::srun && std::getenv("SLURM_JOB_ID") == nullptr) {
    fail(ExitCode::config,
         "--launcher: srun starts runs inside an allocation, but there is none; use salloc or "
         "sbatch around this command, or --launcher sbatch");
  }
  return launcher;
}

StudyJobs::StudyJobs(const Launcher& launcher, const RunnerOptions& options)
    : launcher_(launcher), options_(options) {
  if (options.resume && launcher.is_batch()) cancel_waiting();
}

bool StudyJobs::run(const std::function<bool()>& start_more) {
  for (;;) {
    const bool more = !stopping_ && start_more();
    if (running_.empty() && !more) return stopping_;
    if (signal_within(stop_signals, 0.02) > 0) stop("stopping");
    if (stopping_) cancel();
    collect();
  }
}

void StudyJobs::stop(std::string_view reason) {
  if (!std::exchange(stopping_, true))
    fmt::print(stderr, "{}; --resume continues the study\n", reason);
}

bool StudyJobs::can_start() const {
  return is_array() ? running_.empty() : std::ssize(running_) < options_.jobs;
}

void StudyJobs::start(std::vector<StudyRun> runs) {
  Running running{.runs = std::move(runs), .job = nullptr};
  const StudyRun& first = running.runs.front();
  if (is_array()) {
    running.job = start_array(running.runs);
  } else {
    running.job = std::make_unique<Job>(
        launcher_.command(first.ranks, first.arguments, first.slurm_log()), first.log());
  }
  running_.push_back(std::move(running));
}

std::unique_ptr<Job> StudyJobs::start_array(const std::vector<StudyRun>& runs) {
  const std::string directory = options_.directory + "/waves";
  fs::create_directories(directory);
  std::string wave, lines;
  do {
    wave = fmt::format("{}/{:03}.txt", directory, ++waves_);
  } while (fs::exists(wave));  // of an earlier start
  for (const StudyRun& run : runs)
    lines += sweep_line(run);
  write_file(wave, lines, ExitCode::config);
  const StudyRun& first = runs.front();
  std::vector<std::string> command = launcher_.command(
      first.ranks, {"train", "--sweep", wave, first.arguments[1]}, wave + ".%a.log");
  command.insert(command.begin() + 1, fmt::format("--array=1-{}%{}", runs.size(), options_.jobs));
  write_file(wave + ".sh", fmt::format("#!/bin/sh\n{}\n", shell_text(command)), ExitCode::config);
  return std::make_unique<Job>(command, wave + std::string(array_log));
}

void StudyJobs::cancel_waiting() const {
  std::vector<std::string> command{"scancel", "--state=PENDING", "--name=" + launcher_.job_name};
  const std::size_t options = command.size();
  std::error_code error;
  for (const char* const place : {"/waves", "/runs"}) {
    for (fs::recursive_directory_iterator file(options_.directory + place, error), end;
         !error && file != end; file.increment(error)) {
      const std::string name = file->path().filename().string();
      if (name == "run") file.disable_recursion_pending();
      if (!name.ends_with(array_log) && !name.ends_with("log.txt")) continue;
      const std::string job = Launcher::slurm_job_of(file->path().string());
      if (!job.empty()) command.push_back(job);
    }
  }
  if (command.size() > options) (void)ask(command);
}

// Each job once.
void StudyJobs::cancel() {
  for (Running& running : running_) {
    if (running.cancelled) continue;
    if (launcher_.is_batch()) {
      const std::string job = Launcher::slurm_job_of(running.job->log());
      if (job.empty()) continue;  // not submitted yet
      (void)ask({"scancel", job});
    } else {
      running.job->terminate();
    }
    running.cancelled = true;
  }
}

void StudyJobs::collect() {
  std::vector<std::pair<Running, int>> ended;
  for (auto running = running_.begin(); running != running_.end();) {
    const std::optional<int> code = running->job->poll();
    if (!code) {
      ++running;
      continue;
    }
    ended.emplace_back(std::move(*running), *code);
    running = running_.erase(running);
  }
  const bool stopped = stopping_;
  for (const auto& [running, code] : ended)
    for (std::size_t i = 0; i < running.runs.size(); ++i)
      running.runs[i].ended({.code = code, .log = log_of(running, i), .stopped = stopped});
}

std::string StudyJobs::log_of(const Running& running, std::size_t run) const {
  const std::string& own = running.job->log();
  std::string of_job = running.runs[run].slurm_log();
  if (is_array())
    of_job = fmt::format("{}.{}.log", own.substr(0, own.size() - array_log.size()), run + 1);
  return launcher_.is_batch() && is_file(of_job) ? of_job : own;
}

std::string StudyJobs::command_of(const StudyRun& run) const {
  return shell_text(launcher_.command(run.ranks, run.arguments, run.slurm_log()));
}

std::string last_words(const std::string& log) {
  std::istringstream file(runs::end_of_file(log, std::uint64_t{1} << 20));
  std::string last, error;
  for (std::string line; std::getline(file, line);) {
    if (line.find_first_not_of(" \t-") == std::string::npos) continue;
    last = line;
    if (line.find("] error: ") != std::string::npos) error = line;
  }
  return error.empty() ? last : error;
}

void set_study_environment(const char* grace_seconds) {
  if (::setenv("TRIREME_BINARY", own_binary().c_str(), 0) != 0 ||
      ::setenv("TRIREME_GRACE_SECONDS", grace_seconds, 0) != 0)
    system_failed("setenv", "TRIREME_BINARY, TRIREME_GRACE_SECONDS");
}

}  // namespace trireme::studies
