// SPDX-License-Identifier: Apache-2.0
#include "launch/cli/commands.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "launch/cli/number_check.h"
#include "launch/cli/shared_options.h"
#include "launch/observe/top/live_view.h"

namespace trireme {

void add_top_command(CLI::App& app) {
  auto* const command =
      app.add_subcommand("top", "Watch a run, or several, on a terminal while they go on");
  const auto request = std::make_shared<top::Request>();
  command
      ->add_option(
          "runs", request->places,
          "Run directories, directories that hold some (of a study, a campaign, a job array), or "
          "patterns; they may appear later")
      ->required();
  add_value(*command, "--interval", request->interval_seconds, "Seconds between two looks",
            number_between(0.1, 3600));
  command->add_flag("--once", request->once,
                    "Print one page and end; the default if the output is no terminal");
  command->add_flag("--json", request->json, "One look, as JSON");
  command->footer(
      "Keys: q quits, arrows choose a run, any other key polls at once.\n"
      "Ends with code 2 if a page has no run to show.\n"
      "Examples: trireme top runs/gpt_tiny\n"
      "          trireme top 'runs/4711_*'\n"
      "          trireme top ablations/schedule\n"
      "          ssh login trireme top --once /scratch/runs");
  on_one_process(*command, [request] { top::show(*request); });
}

}  // namespace trireme
