// SPDX-License-Identifier: Apache-2.0
#include "launch/cli/commands.h"
#include "launch/cli/number_check.h"
#include "launch/cli/shared_options.h"

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/observe/report/differences.h"
#include "launch/observe/report/run_data.h"
#include "launch/observe/report/runs_page.h"
#include "launch/observe/report/text_report.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

struct ReportArguments {
  std::vector<std::string> runs;
  std::string output, align = "step";
  bool metrics = false, text_only = false, json = false;
};

// In the run's directory for one run, else in the current directory.
std::string output_path(const ReportArguments& arguments,
                        const std::vector<report::RunData>& runs) {
  if (!arguments.output.empty()) return arguments.output;
  return runs.size() == 1 ? runs.front().directory + "/report.html" : "report.html";
}

void write_page(const ReportArguments& arguments, const std::vector<report::RunData>& runs) {
  constexpr std::pair<const char*, report::Alignment> alignments[] = {
      {"step", report::Alignment::step},
      {"items", report::Alignment::items},
      {"time", report::Alignment::time}};
  const auto* const alignment =
      std::ranges::find(alignments, arguments.align, [](const auto& one) { return one.first; });
  const std::string path = output_path(arguments, runs);
  try {
    require_writable(path, ExitCode::config);
    write_file(path, report::runs_page(runs, alignment->second), ExitCode::config);
  } catch (const Error& error) {
    fail(error.code(), "{}; name another file with --output FILE, or use --text-only",
         error.what());
  }
  if (!arguments.json) fmt::print("{}{}\n", runs.size() > 1 ? "\n" : "", path);
}

void print_text(const std::vector<report::RunData>& runs) {
  if (runs.size() > 1)
    fmt::print("{}{}\n", report::comparison_of(runs).text(), report::text_differences(runs));
  const char* separator = "";
  for (const report::RunData& run : runs) {
    fmt::print("{}{}", separator, report::text_report(run));
    separator = "\n";
  }
}

void make_report(const ReportArguments& arguments) {
  if (arguments.metrics) {
    fmt::print("{}", report::metrics_text());
    return;
  }
  if (arguments.runs.empty())
    fail(ExitCode::config, "report: give the directory of a run, or --metrics");
  std::optional<Error> unread;
  const std::vector<report::RunData> runs = report::read_runs(arguments.runs, unread);
  if (arguments.json)
    fmt::print("{}", report::json_report(runs));
  else
    print_text(runs);
  std::fflush(stdout);
  if (!arguments.text_only && (!arguments.json || !arguments.output.empty()))
    write_page(arguments, runs);
  if (unread) throw Error(*unread);
}

}  // namespace

void add_report_command(CLI::App& app) {
  auto* const command =
      app.add_subcommand("report", "Report on a running or finished run, with its time split");
  const auto arguments = std::make_shared<ReportArguments>();
  command->add_option("runs", arguments->runs,
                      "Directories of runs, directories that hold some (of a study, a campaign, a "
                      "job array), or patterns; several runs are compared, the first one first");
  command->add_flag("--metrics", arguments->metrics,
                    "Print every metric of a run, with its unit and meaning, instead");
  command->add_option(
      "--output", arguments->output,
      "The page; default: report.html in the run's directory, of several runs here");
  command->add_flag("--text-only", arguments->text_only, "Write no page");
  command->add_flag("--json", arguments->json,
                    "Print JSON, and write a page only where --output names one");
  add_value(*command, "--align", arguments->align, "Initial x axis of the charts",
            CLI::IsMember({"step", "items", "time"}));
  command->footer(
      "Reads a run in any state and names missing files.\n"
      "Ends with code 2 where there is no such directory, with 3 where it holds no run; of "
      "several,\n"
      "behind the report of the others, with a line for each.\n"
      "Example: trireme report runs/book\n"
      "Example: trireme report ablations/schedule --output compared.html\n"
      "Example: trireme report runs/book runs/book_2 --align time --output compared.html");
  on_one_process(*command, [arguments] { make_report(*arguments); });
}

}  // namespace trireme
