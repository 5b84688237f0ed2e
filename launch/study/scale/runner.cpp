// SPDX-License-Identifier: Apache-2.0
#include "launch/study/scale/runner.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <utility>

#include "launch/study/study_directory.h"
#include "runtime/base/checksum.h"
#include "runtime/telemetry/environment.h"
#include "runtime/telemetry/host.h"

namespace trireme::scale {
namespace {

namespace fs = std::filesystem;

struct Run {
  std::vector<PointResult*> points{};  // weak and strong scaling share some runs
  int repeat = 0;
  std::string directory{};
  std::uint64_t command = 0;  // checksum of what runs
  int turn = 0;

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
  [[nodiscard]] std::string run() const { return directory + "/run"; }
  [[nodiscard]] std::string result() const { return directory + "/result.json"; }
};

class Sweep {
 public:
  Sweep(const Study& study, const studies::Launcher& launcher,
        const studies::RunnerOptions& options)
      : study_(study), launcher_(launcher), options_(options), jobs_(launcher, options) {
    for (const Point& point : study.points)
      result_.points.push_back({point, std::vector<std::optional<RunResult>>(
                                           static_cast<std::size_t>(study.options.repeats))});
  }

  SweepResult run() {
    std::vector<Run> pending = plan();
    std::ranges::reverse(pending);
    result_.interrupted = jobs_.run([&] {
      for (; !pending.empty() && jobs_.can_start(); pending.pop_back())
        start(pending.back());
      return !pending.empty();
    });
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
      // The directory may have been moved.
      const auto words =
          launcher_.command(point.point.ranks(), study_.arguments(point.point, ""), "");
      run.command = checksum_of(fmt::format(
          "{}\n{}\n{}", version_text(), study_.identity.front().second, fmt::join(words, "\n")));
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

  // The same order after a restart; <random>'s shuffle differs between libraries.
  static void shuffle(std::vector<Run>& runs, int repeat) {
    std::mt19937_64 bits(static_cast<std::uint64_t>(repeat) + 1);
    for (std::size_t left = runs.size(); left > 1; --left)
      std::swap(runs[left - 1], runs[static_cast<std::size_t>(bits() % left)]);
  }

  // The runs without a result, the repeats outermost, so that a slow hour affects all points.
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

  void start(const Run& run) {
    fs::remove_all(run.directory);  // of an unfinished run
    fs::create_directories(run.directory);
    studies::StudyRun job{.ranks = run.point().ranks(),
                          .arguments = study_.arguments(run.point(), run.run()),
                          .prefix = run.directory + "/"};
    job.ended = [this, run, command = jobs_.command_of(job)](const studies::RunEnd& end) {
      record(run, command, end);
    };
    jobs_.start({std::move(job)});
  }

  [[nodiscard]] RunResult read(const Run& run) const {
    const StudyOptions& options = study_.options;
    RunResult result =
        run.point().mode == Mode::fixed_loss
            ? read_to_loss(run.run(), options.target_loss, options.loss_window)
            : read_time_split(run.run() + "/time_split.jsonl", options.warmup, options.steps);
    result.place = read_place(run.run(), usable_cores(host_cpu()));
    read_records(result, run.run(), result.steps_to_loss > 0 ? 0 : options.warmup);
    return result;
  }

  void record(const Run& run, const std::string& command, const studies::RunEnd& end) {
    RunResult result;
    result.code = end.code;
    try {
      if (end.code == 0) result = read(run);
    } catch (const Error& error) {
      result.code = static_cast<int>(error.code());
      result.error = error.what();
    }
    // A stopped run did not fail; sbatch may report 0 for one.
    if (end.stopped && result.code != 0) return;
    if (end.code != 0) result.error = studies::last_words(end.log);
    result.command = run.command;
    result.command_line = command;
    result.turn = run.turn;
    save_result(run.result(), result);
    // The weights are large and of no use.
    fs::remove(run.run() + "/weights.safetensors");
    run.put(result);
    report(run, result);
  }

  void report(const Run& run, const RunResult& result) {
    fmt::print("[{}/{}] {}: ", ++done_, total_, run.name());
    if (result.code == 0) {
      fmt::print("{:.2f} ms {}\n", 1e3 * result.parts[TimePart::period],
                 result.steps_to_loss > 0 ? fmt::format("for {} steps", result.steps_to_loss)
                                          : "per step");
    } else {
      ++result_.failed;
      fmt::print("failed with code {}: {}\n", result.code, result.error);
    }
    std::fflush(stdout);
  }

  const Study& study_;
  const studies::Launcher& launcher_;
  const studies::RunnerOptions& options_;
  studies::StudyJobs jobs_;
  SweepResult result_;
  std::size_t done_ = 0, total_ = 0;
};

}  // namespace

SweepResult run_study(const Study& study, const studies::Launcher& launcher,
                      const studies::RunnerOptions& options) {
  const studies::StudyDirectory claimed(options.directory, study.identity, options.resume);
  return Sweep(study, launcher, options).run();
}

}  // namespace trireme::scale
