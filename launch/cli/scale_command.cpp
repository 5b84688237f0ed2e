// SPDX-License-Identifier: Apache-2.0
#include "launch/cli/commands.h"

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>

#include "launch/cli/number_check.h"
#include "launch/cli/shared_options.h"
#include "launch/study/scale/report.h"
#include "launch/study/scale/runner.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/file.h"
#include "runtime/base/process.h"

namespace trireme {
namespace {

struct ScaleArguments {
  scale::StudyOptions study;
  scale::RunnerOptions runner;
  std::string ranks = "1,2,4,8", launcher = "mpirun", launcher_options;
};

// Of the first successful run.
std::string environment_of(const scale::SweepResult& sweep, const std::string& directory) {
  constexpr std::uint64_t largest = std::uint64_t{1} << 20;
  for (const scale::PointResult& point : sweep.points) {
    for (std::size_t i = 0; i < point.runs.size(); ++i) {
      if (!point.runs[i] || point.runs[i]->code != 0) continue;
      const std::string path =
          fmt::format("{}/runs/{}-{}/run/environment.json", directory, point.point.name(), i + 1);
      if (const auto text = read_file_if_exists(path, largest, ExitCode::data)) return *text;
    }
  }
  return {};
}

void write_reports(const scale::Study& study, std::span<const scale::Row> rows,
                   const std::string& directory) {
  write_file(directory + "/scaling.csv", scale::csv_report(study, rows), ExitCode::internal);
  write_file(directory + "/scaling.json", scale::json_report(study, rows), ExitCode::internal);
  write_file(directory + "/scaling.html", scale::html_report(study, rows), ExitCode::internal);
  write_file(directory + "/scaling.tex", scale::latex_report(study, rows), ExitCode::internal);
  fmt::print("{}{}/scaling.csv, .json, .html and .tex\n", scale::text_report(study, rows),
             directory);
}

void scale_out(ScaleArguments arguments) {
  arguments.study.ranks = scale::parse_ranks(arguments.ranks);
  scale::Study study = scale::plan_study(arguments.study);
  study.launcher = arguments.launcher;
  if (!arguments.launcher_options.empty()) study.launcher += " " + arguments.launcher_options;
  const scale::Launcher launcher =
      scale::make_launcher(arguments.launcher, arguments.launcher_options);
  if (launcher.kind != scale::LauncherKind::sbatch && arguments.runner.jobs > 1) {
    fail(ExitCode::config,
         "--jobs: {} jobs at once would disturb each other under {}; use 1, or --launcher sbatch",
         arguments.runner.jobs, arguments.launcher);
  }
  hold_signals(stop_signals);
  scale::set_study_environment("5");  // a stopped run leaves nothing of use
  const scale::SweepResult sweep = scale::run_study(study, launcher, arguments.runner);
  study.environment = environment_of(sweep, arguments.runner.directory);
  write_reports(study, scale::attribute(sweep.points), arguments.runner.directory);
  if (sweep.interrupted) throw CLI::RuntimeError(static_cast<int>(ExitCode::requeue));
  if (sweep.failed > 0) {
    fmt::print(stderr, "{} runs failed; --resume tries them again\n", sweep.failed);
    throw CLI::RuntimeError(static_cast<int>(ExitCode::internal));
  }
}

}  // namespace

void add_scale_command(CLI::App& app) {
  auto* const command = app.add_subcommand(
      "scale", "Train on several numbers of ranks and report scaling efficiency and its losses");
  const auto arguments = std::make_shared<ScaleArguments>();
  scale::StudyOptions& study = arguments->study;
  scale::RunnerOptions& runner = arguments->runner;
  add_config_options(*command, study.config, study.overrides)->required();
  command->add_option("--ranks", arguments->ranks, "Numbers of ranks, between commas")
      ->capture_default_str();
  add_value(*command, "--mode", study.mode,
            "weak: the global batch grows with the ranks, so that each keeps its work, in any "
            "layout; strong: it stays; fixed-loss: it grows, and the time to --target-loss counts",
            CLI::IsMember({"weak", "strong", "both", "fixed-loss"}));
  command
      ->add_option("--target-loss", study.target_loss,
                   "With fixed-loss: the mean training loss of --loss-window steps that ends the "
                   "time; --steps is how many a run has for it")
      ->check(number_between(1e-6, 1e6));
  add_value(*command, "--loss-window", study.loss_window, "Steps that the loss is the mean of",
            integer_between(std::int64_t{1}, std::int64_t{1} << 40));
  command
      ->add_option("--layouts", study.layouts,
                   "Layouts separated by commas, such as data=4,data=2:tensor=2,pipeline=4; each "
                   "runs at its number of ranks; auto: the planner's fastest on parallel.hardware, "
                   "or data parallel without it")
      ->capture_default_str();
  add_value(*command, "--launcher", arguments->launcher,
            "mpirun (launch/mpi_run.sh), srun: one step of this allocation per run, or sbatch: one "
            "job per run",
            CLI::IsMember({"mpirun", "srun", "sbatch"}));
  command->add_option("--launcher-options", arguments->launcher_options,
                      "What the launcher gets as well: \"--host a:4,b:4\", \"--partition=gpu "
                      "--gpus-per-node=8\"");
  add_value(*command, "--jobs", runner.jobs, "Jobs of sbatch that may be queued or run at once",
            integer_between(1, 1000));
  add_value(*command, "--repeats", study.repeats, "Runs per point; the median counts",
            integer_between(1, 1000));
  add_value(*command, "--steps", study.steps, "Steps per run",
            integer_between(std::int64_t{2}, std::int64_t{1} << 40));
  add_value(*command, "--warmup", study.warmup, "Steps at the start of a run that do not count",
            integer_between(std::int64_t{1}, std::int64_t{1} << 40));
  add_value(*command, "--order", study.order,
            "Order of the runs in each repeat: random, or as given",
            CLI::IsMember({"drawn", "given"}));
  runner.directory = "scaling";
  command->add_option("--out", runner.directory, "Directory of the runs and reports")
      ->capture_default_str();
  command->add_flag("--resume", runner.resume, "Continue the study in --out");
  command->footer(
      "Ends with code 1 if a run failed, with 75 if it was interrupted (--resume continues).\n"
      "Example: trireme scale configs/gpt_tiny.yaml --ranks 1,2 --mode both --out scaling/tiny\n"
      "Example: salloc --nodes=2 --ntasks=8 trireme scale configs/gpt_tiny.yaml --launcher srun");
  command->callback([arguments, command] {
    require_no_ranks(*command);
    scale_out(*arguments);
  });
}

}  // namespace trireme
