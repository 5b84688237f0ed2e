// SPDX-License-Identifier: Apache-2.0
#include "launch/cli/commands.h"

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>

#include <nlohmann/json.hpp>
#include "launch/cli/number_check.h"
#include "launch/cli/shared_options.h"
#include "launch/cli/study_options.h"
#include "launch/study/scale/report.h"
#include "launch/study/study_directory.h"
#include "runtime/base/file.h"
#include "runtime/base/process.h"

namespace trireme {
namespace {

struct ScaleArguments {
  scale::StudyOptions study;
  StudyArguments jobs;
  std::string ranks = "1,2,4,8";
};

// environment.json of the first successful run.
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

void scale_out(ScaleArguments arguments) {
  arguments.study.ranks = scale::parse_ranks(arguments.ranks);
  scale::Study study = scale::plan_study(arguments.study);
  study.launcher = arguments.jobs.launcher_text();
  // A stopped run leaves nothing of use.
  const studies::Launcher launcher = prepare_launcher(arguments.jobs, "trireme-scale", "5");
  const std::string& directory = arguments.jobs.runner.directory;
  const scale::SweepResult sweep = scale::run_study(study, launcher, arguments.jobs.runner);
  study.environment = environment_of(sweep, directory);
  const std::vector<scale::Row> rows = scale::attribute(sweep.points);
  studies::write_reports(directory,
                         {{"scaling.csv", scale::csv_report(study, rows)},
                          {"scaling.json", studies::json_file(scale::json_report(study, rows))},
                          {"scaling.html", scale::html_report(study, rows)},
                          {"scaling.tex", scale::latex_report(study, rows)}});
  fmt::print("{}{}/scaling.csv, .json, .html and .tex\n", scale::text_report(study, rows),
             directory);
  end_study(sweep.interrupted, sweep.failed, fmt::format("{} runs", sweep.failed));
}

}  // namespace

void add_scale_command(CLI::App& app) {
  auto* const command = app.add_subcommand(
      "scale", "Train on several numbers of ranks and report scaling efficiency and its losses");
  const auto arguments = std::make_shared<ScaleArguments>();
  scale::StudyOptions& study = arguments->study;
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
      ->add_option(
          "--layouts", study.layouts,
          "Layouts separated by commas, such as data=4,data=2:tensor=2,spatial=2x2x1; "
          "each runs at its number of ranks; auto: the planner's fastest on parallel.hardware, "
          "or data parallel without it")
      ->capture_default_str();
  add_study_options(*command, arguments->jobs, "scaling", /*array=*/false);
  add_value(*command, "--repeats", study.repeats, "Runs per point; the median counts",
            integer_between(1, 1000));
  add_value(*command, "--steps", study.steps, "Steps per run",
            integer_between(std::int64_t{2}, std::int64_t{1} << 40));
  add_value(*command, "--warmup", study.warmup, "Steps at the start of a run that do not count",
            integer_between(std::int64_t{1}, std::int64_t{1} << 40));
  add_value(*command, "--order", study.order,
            "Order of the runs in each repeat: random, or as given",
            CLI::IsMember({"drawn", "given"}));
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
