// SPDX-License-Identifier: Apache-2.0
#include "launch/cli/commands.h"

#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <memory>

#include "launch/cli/shared_options.h"
#include "launch/cli/study_options.h"
#include "launch/study/ablate/report.h"
#include "launch/study/study_directory.h"

namespace trireme {
namespace {

struct AblateArguments {
  std::string study;
  std::vector<std::string> overrides;
  StudyArguments jobs;
  bool list = false;
};

void list(const ablate::Study& study) {
  fmt::print("{} variants x {} seeds = {} cells on {} ranks; metric {}\n", study.variants.size(),
             study.seeds.size(), study.variants.size() * study.seeds.size(), study.ranks,
             ablate::name_of(study.metric));
  for (const ablate::Variant& variant : study.variants)
    fmt::print("{}: {}\n", variant.name, fmt::join(variant.settings, " "));
}

void run(const AblateArguments& arguments) {
  ablate::Study study = ablate::read_study(arguments.study, arguments.overrides);
  if (arguments.list) return list(study);
  study.launcher = arguments.jobs.launcher_text();
  const studies::Launcher launcher = prepare_launcher(arguments.jobs, "trireme-ablate", "60");
  const ablate::AblationResult result =
      ablate::run_ablation(study, launcher, arguments.jobs.runner);
  const std::vector<ablate::Row> rows = ablate::compare(study, result);
  const std::string& directory = arguments.jobs.runner.directory;
  studies::write_reports(directory, {{"ablation.csv", ablate::csv_report(study, result)},
                                     {"ablation.json", ablate::json_report(study, result, rows)},
                                     {"ablation.html", ablate::html_report(study, result, rows)}});
  fmt::print("{}{}/ablation.csv, .json and .html\n", ablate::text_report(study, result, rows),
             directory);
  end_study(result.interrupted, result.failed,
            fmt::format("{} of {} cells", result.failed, result.cells.size()));
}

}  // namespace

void add_ablate_command(CLI::App& app) {
  auto* const command = app.add_subcommand(
      "ablate", "Train variants of a config with several seeds and compare them with the base");
  const auto arguments = std::make_shared<AblateArguments>();
  command->add_option("study", arguments->study, "YAML file of the study, see launch/study/ablate")
      ->required();
  add_set_option(*command, arguments->overrides, ", in every cell: data.path, ...");
  add_study_options(*command, arguments->jobs, "ablation", /*array=*/true);
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
