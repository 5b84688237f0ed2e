// SPDX-License-Identifier: Apache-2.0
#include "launch/cli/commands.h"
#include "launch/cli/number_check.h"
#include "launch/cli/shared_options.h"

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <memory>
#include <string>

#include "launch/observe/trace/trace_summary.h"

namespace trireme {
namespace {

struct SummaryArguments {
  std::string place;
  std::size_t gaps = 10;
};

void print_summary(const SummaryArguments& arguments) {
  const TraceFile trace = read_trace(find_trace(arguments.place));
  fmt::print("{}", text_of(trace, summarize(trace, arguments.gaps)));
  std::fflush(stdout);
}

}  // namespace

void add_trace_command(CLI::App& app) {
  auto* const command =
      app.add_subcommand("trace", "Summarise a trace of some steps over all ranks");
  command->require_subcommand(1);
  command->footer(
      "Where traces come from: launch/mpi_run.sh -np 4 trireme train configs/gpt_tiny.yaml --set "
      "telemetry.trace=10-12\n"
      "They are in RUN_DIR/trace: steps_10-12.json.gz, of all ranks on one clock, for "
      "ui.perfetto.dev\n"
      "and chrome://tracing, and a file per rank for tools of Kineto's traces in "
      "steps_10-12.kineto.");
  auto* const summary = command->add_subcommand(
      "summary", "Busy shares by rank, and the largest gaps of the compute streams with causes");
  const auto arguments = std::make_shared<SummaryArguments>();
  summary
      ->add_option("trace", arguments->place,
                   "Run directory, of which the newest trace is used, or a file steps_*.json.gz")
      ->required();
  add_value(*summary, "--gaps", arguments->gaps, "How many gaps", CLI::Range(0, 1'000'000));
  summary->footer("Example: trireme trace summary runs/book");
  on_one_process(*summary, [arguments] { print_summary(*arguments); });
}

}  // namespace trireme
