// SPDX-License-Identifier: Apache-2.0
#include "launch/commands/report_command.h"

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <memory>
#include <string>
#include <vector>

#include "launch/report/metrics_text.h"
#include "launch/report/run_data.h"
#include "launch/report/text_report.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

struct ReportArguments {
  std::vector<std::string> runs;
  bool metrics = false;
};

void make_report(const ReportArguments& arguments) {
  if (arguments.metrics) {
    fmt::print("{}", report::metrics_text());
    return;
  }
  if (arguments.runs.empty())
    fail(ExitCode::config, "report: give the directory of a run, or --metrics");
  std::vector<report::RunData> runs;
  for (const std::string& directory : arguments.runs)
    runs.push_back(report::read_run(directory));
  if (runs.size() > 1) fmt::print("{}\n", report::text_comparison(runs));
  const char* separator = "";
  for (const report::RunData& run : runs) {
    fmt::print("{}{}", separator, report::text_report(run));
    separator = "\n";
  }
  std::fflush(stdout);
}

}  // namespace

void add_report_command(CLI::App& app) {
  auto* const command = app.add_subcommand(
      "report", "Say how a run fares or fared and where its time went; while it runs, too");
  const auto arguments = std::make_shared<ReportArguments>();
  command->add_option("runs", arguments->runs,
                      "Directories of runs; several are compared, the first one first");
  command->add_flag("--metrics", arguments->metrics,
                    "Print every metric of a run, with its unit and meaning, instead");
  command->footer(
      "Reads what is there, whatever state the run is in, and says what is missing.\n"
      "Ends with code 2 where there is no such directory, with 3 where it holds no run.\n"
      "Example: trireme report runs/book");
  command->callback([arguments] { make_report(*arguments); });
}

}  // namespace trireme
