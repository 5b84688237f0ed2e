// SPDX-License-Identifier: Apache-2.0
#include "launch/study/scale/runner.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <random>
#include <utility>

#include "runtime/base/process.h"
#include "launch/study/scale/study_directory.h"
#include "runtime/base/checksum.h"
#include "runtime/telemetry/environment.h"
#include "runtime/telemetry/host.h"

namespace trireme::scale {
namespace {

namespace fs = std::filesystem;

struct Run {
  std::vector<PointResult*> points{};  // weak and strong scaling have some in common
  int repeat = 0;
  std::string directory{};
  std::uint64_t command = 0;
  std::vector<std::string> words{};
  int turn = 0;
  std::unique_ptr<Job> job{};
  bool cancelled = false;

  [[nodiscard]] const Point& point() const { return points.front()->point; }
  [[nodiscard]] std::string name() const {
    return fmt::format("{} scaling, {} ranks as {}, run {}",
                       points.size() > 1 ? "weak and strong" : name_of(point().mode),
                       point().ranks(), point().layout(), repeat + 1);
  }
  void put(const RunResult& result) const {
    for (PointResult* const each : points)
      each->runs[static_cast<std::size_t>(repeat)] = result;
  }
  [[nodiscard]] std::string log() const { return directory + "/log.txt"; }
  [[nodiscard]] std::string slurm_log() const { return directory + "/slurm.txt"; }
  [[nodiscard]] std::string result() const { return directory + "/result.json"; }
};

class Sweep {
 public:
  Sweep(const Study& study, const Launcher& launcher, const RunnerOptions& options)
      : study_(study), launcher_(launcher), options_(options) {
    for (const Point& point : study.points)
      result_.points.push_back({point, std::vector<std::optional<RunResult>>(
                                           static_cast<std::size_t>(study.options.repeats))});
  }

  SweepResult run() {
    std::vector<Run> pending = plan();
    std::ranges::reverse(pending);
    bool stop = false;
    while (!running_.empty() || (!stop && !pending.empty())) {
      while (!stop && !pending.empty() && std::ssize(running_) < options_.jobs) {
        start(std::move(pending.back()));
        pending.pop_back();
      }
      if (signal_within(stop_signals, 0.02) > 0 && !std::exchange(stop, true))
        fmt::print(stderr, "stopping; --resume continues the study\n");
      if (stop) std::ranges::for_each(running_, [&](Run& run) { cancel(run); });
      collect(stop);
    }
    result_.interrupted = stop;
    return std::move(result_);
  }

 private:
  // One run of each config: points of both modes that are the same run share it.
  std::vector<Run> runs_of(int repeat) {
    std::vector<Run> runs;
    for (PointResult& point : result_.points) {
      Run run{.points = {&point}, .repeat = repeat};
      run.directory =
          fmt::format("{}/runs/{}-{}", options_.directory, point.point.name(), repeat + 1);
      run.words = words_of(point.point, run.directory + "/run", run.slurm_log());
      // The directory may have been moved.
      run.command =
          checksum_of(fmt::format("{}\n{}\n{}", version_text(), study_.identity.front().second,
                                  fmt::join(words_of(point.point, "", ""), "\n")));
      const auto same = std::ranges::find(runs, run.command, &Run::command);
      if (same == runs.end()) {
        runs.push_back(std::move(run));
      } else {
        same->points.push_back(&point);
      }
    }
    if (study_.options.order == "drawn") shuffle(runs, repeat);
    for (std::size_t i = 0; i < runs.size(); ++i)
      runs[i].turn = static_cast<int>(i) + 1;
    return runs;
  }

  // The same for a repeat whenever the study goes on; <random>'s shuffle differs between libraries.
  static void shuffle(std::vector<Run>& runs, int repeat) {
    std::mt19937_64 bits(static_cast<std::uint64_t>(repeat) + 1);
    for (std::size_t left = runs.size(); left > 1; --left)
      std::swap(runs[left - 1], runs[static_cast<std::size_t>(bits() % left)]);
  }

  // All repeats of all runs, the repeats outermost, so that a slow hour hits no point alone; but
  // for those whose results are there.
  std::vector<Run> plan() {
    std::vector<Run> missing;
    std::size_t all = 0;
    for (int repeat = 0; repeat < study_.options.repeats; ++repeat) {
      for (Run& run : runs_of(repeat)) {
        ++all;
        const auto there = load_result(run.result(), run.point().ranks());
        if (there && there->code == 0 && there->command == run.command) {
          run.put(*there);
        } else {
          missing.push_back(std::move(run));
        }
      }
    }
    total_ = missing.size();
    fmt::print("{} runs, {} of them are there already\n", all, all - total_);
    return missing;
  }

  [[nodiscard]] std::vector<std::string> words_of(const Point& point, const std::string& directory,
                                                  const std::string& job_log) const {
    return launcher_.command(point.ranks(), study_.arguments(point, directory), job_log);
  }

  void start(Run run) {
    fs::remove_all(run.directory);  // of a run that was not finished
    fs::create_directories(run.directory);
    run.job = std::make_unique<Job>(run.words, run.log());
    running_.push_back(std::move(run));
  }

  // Once for each; a job of sbatch has no number yet until it is submitted.
  void cancel(Run& run) const {
    if (run.cancelled) return;
    if (launcher_.kind == LauncherKind::sbatch) {
      const std::string job = Launcher::slurm_job_of(run.log());
      if (job.empty()) return;
      (void)ask({"scancel", job});
    } else {
      run.job->terminate();
    }
    run.cancelled = true;
  }

  void collect(bool stopping) {
    for (auto run = running_.begin(); run != running_.end();) {
      const std::optional<int> code = run->job->poll();
      if (!code) {
        ++run;
        continue;
      }
      // A run that was told to stop has failed in nothing.
      if (!stopping || *code == 0) record(*run, *code);
      run = running_.erase(run);
    }
  }

  [[nodiscard]] RunResult read(const Run& run) const {
    const StudyOptions& options = study_.options;
    const std::string directory = run.directory + "/run";
    if (run.point().mode == Mode::fixed_loss)
      return read_to_loss(directory, options.target_loss, options.loss_window);
    return read_time_split(directory + "/time_split.jsonl", options.warmup, options.steps);
  }

  void record(const Run& run, int code) {
    RunResult result;
    if (code == 0) {
      try {
        result = read(run);
        result.place = read_place(run.directory + "/run", usable_cores(host_cpu()));
        read_records(result, run.directory + "/run",
                     result.steps_to_loss > 0 ? 0 : study_.options.warmup);
      } catch (const Error& error) {
        // sbatch may report 0 of a job that it was told to cancel.
        if (run.cancelled) return;
        code = static_cast<int>(error.code());
        result.error = error.what();
      }
    } else {
      const bool slurm = launcher_.kind == LauncherKind::sbatch && fs::exists(run.slurm_log());
      result.error = last_words(slurm ? run.slurm_log() : run.log());
    }
    result.code = code;
    result.command = run.command;
    result.command_line = fmt::format("{}", fmt::join(run.words, " "));
    result.turn = run.turn;
    save_result(run.result(), result);
    // Weights of a few steps are of no use, and large.
    fs::remove(run.directory + "/run/weights.safetensors");
    run.put(result);
    ++done_;
    if (code == 0) {
      fmt::print("[{}/{}] {}: {:.2f} ms {}\n", done_, total_, run.name(),
                 1e3 * result.parts[TimePart::period],
                 result.steps_to_loss > 0 ? fmt::format("for {} steps", result.steps_to_loss)
                                          : "per step");
    } else {
      ++result_.failed;
      fmt::print("[{}/{}] {}: failed with code {}: {}\n", done_, total_, run.name(), code,
                 result.error);
    }
    std::fflush(stdout);
  }

  const Study& study_;
  const Launcher& launcher_;
  const RunnerOptions& options_;
  SweepResult result_;
  std::vector<Run> running_;
  std::size_t done_ = 0, total_ = 0;
};

}  // namespace

void set_study_environment(const char* grace_seconds) {
  if (::setenv("TRIREME_BINARY", own_binary().c_str(), 0) != 0 ||
      ::setenv("TRIREME_GRACE_SECONDS", grace_seconds, 0) != 0)
    system_failed("setenv", "TRIREME_BINARY, TRIREME_GRACE_SECONDS");
}

SweepResult run_study(const Study& study, const Launcher& launcher, const RunnerOptions& options) {
  const StudyDirectory claimed(options.directory, study.identity, options.resume);
  return Sweep(study, launcher, options).run();
}

}  // namespace trireme::scale
