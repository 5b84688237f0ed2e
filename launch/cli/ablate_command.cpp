// SPDX-License-Identifier: Apache-2.0
#include "launch/cli/commands.h"

#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <memory>

#include "launch/cli/number_check.h"
#include "launch/cli/shared_options.h"
#include "launch/study/ablate/report.h"
#include "launch/study/scale/runner.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/process.h"

namespace trireme {
namespace {

struct AblateArguments {
  std::string study;
  std::vector<std::string> overrides;
  ablate::RunnerOptions runner;
  std::string launcher = "mpirun", launcher_options;
  bool list = false;
};

void list(const ablate::Study& study) {
  fmt::print("{} variants x {} seeds = {} cells on {} ranks; metric {}\n", study.variants.size(),
             study.seeds.size(), study.variants.size() * study.seeds.size(), study.ranks,
             ablate::name_of(study.metric));
  for (const ablate::Variant& variant : study.variants)
    fmt::print("{}: {}\n", variant.name, fmt::join(variant.settings, " "));
}

void write_reports(const ablate::Study& study, const ablate::AblationResult& result,
                   const std::string& directory) {
  const std::vector<ablate::Row> rows = ablate::compare(study, result);
  write_file(directory + "/ablation.csv", ablate::csv_report(study, result), ExitCode::internal);
  write_file(directory + "/ablation.json", ablate::json_report(study, result, rows),
             ExitCode::internal);
  write_file(directory + "/ablation.html", ablate::html_report(study, result, rows),
             ExitCode::internal);
  fmt::print("{}{}/ablation.csv, .json and .html\n", ablate::text_report(study, result, rows),
             directory);
}

void run(AblateArguments arguments) {
  ablate::Study study = ablate::read_study(arguments.study, arguments.overrides);
  if (arguments.list) return list(study);
  study.launcher = arguments.launcher;
  if (!arguments.launcher_options.empty()) study.launcher += " " + arguments.launcher_options;
  arguments.runner.array = arguments.launcher == "array";
  const bool batch = arguments.runner.array || arguments.launcher == "sbatch";
  if (!batch && arguments.runner.jobs > 1) {
    fail(ExitCode::config,
         "--jobs: {} jobs at once would disturb each other under {}; use 1, or --launcher sbatch "
         "or array",
         arguments.runner.jobs, arguments.launcher);
  }
  scale::Launcher launcher =
      scale::make_launcher(batch ? "sbatch" : arguments.launcher, arguments.launcher_options);
  launcher.job_name = "trireme-ablate";
  hold_signals(stop_signals);
  scale::set_study_environment("60");
  const ablate::AblationResult result = ablate::run_ablation(study, launcher, arguments.runner);
  write_reports(study, result, arguments.runner.directory);
  if (result.interrupted) throw CLI::RuntimeError(static_cast<int>(ExitCode::requeue));
  if (result.failed > 0) {
    fmt::print(stderr, "{} of {} cells failed; --resume tries them again\n", result.failed,
               result.cells.size());
    throw CLI::RuntimeError(static_cast<int>(ExitCode::internal));
  }
}

}  // namespace

void add_ablate_command(CLI::App& app) {
  auto* const command = app.add_subcommand(
      "ablate", "Train variants of a config with several seeds and compare them with the base");
  const auto arguments = std::make_shared<AblateArguments>();
  command->add_option("study", arguments->study, "YAML file of the study, see launch/ablate")
      ->required();
  add_set_option(*command, arguments->overrides, ", in every cell: data.path, ...");
  add_value(*command, "--launcher", arguments->launcher,
            "mpirun (launch/mpi_run.sh), srun: steps of this allocation, sbatch: one job each, "
            "or array: all that can start together as one array of jobs",
            CLI::IsMember({"mpirun", "srun", "sbatch", "array"}));
  command->add_option("--launcher-options", arguments->launcher_options,
                      "What the launcher gets as well: \"--host a:4,b:4\", \"--partition=gpu "
                      "--gpus-per-node=8\"");
  add_value(*command, "--jobs", arguments->runner.jobs,
            "Jobs of sbatch, or tasks of an array, that may run at once", integer_between(1, 1000));
  arguments->runner.directory = "ablation";
  command->add_option("--out", arguments->runner.directory, "Directory of the runs and reports")
      ->capture_default_str();
  command->add_flag("--resume", arguments->runner.resume, "Continue the study in --out");
  command->add_flag("--list", arguments->list, "Check the study, print its variants, and stop");
  command->footer(
      "Ends with code 1 if a cell failed, with 75 if it was interrupted (--resume continues).\n"
      "Example: trireme ablate study.yaml --out ablations/schedule\n"
      "Example: trireme ablate study.yaml --launcher array --jobs 8 --launcher-options "
      "\"--partition=gpu\"");
  command->callback([arguments, command] {
    require_no_ranks(*command);
    run(*arguments);
  });
}

}  // namespace trireme
