// SPDX-License-Identifier: Apache-2.0
#include "launch/cli/commands.h"
#include "launch/cli/one_process.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "launch/replay/verify_run.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

struct VerifyArguments {
  std::string run, against;
  bool json = false;
};

void verify(const VerifyArguments& arguments) {
  const bool compares = !arguments.against.empty();
  const RunCheck check =
      compares ? compare_runs(arguments.run, arguments.against) : verify_run(arguments.run);
  if (arguments.json) {
    const nlohmann::ordered_json text{{"run", arguments.run},
                                      {"against", arguments.against},
                                      {"holds", check.problems.empty()},
                                      {"checks", check.lines},
                                      {"problems", check.problems}};
    fmt::print("{}\n", text.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    for (const std::string& line : check.lines)
      fmt::print("{}\n", line);
  }
  std::fflush(stdout);
  if (check.problems.empty()) return;
  fail(ExitCode::checkpoint, "{}{}: {}", arguments.run,
       compares ? " and " + arguments.against + " differ" : " does not hold what it says",
       fmt::join(check.problems, "; "));
}

}  // namespace

void add_verify_run_command(CLI::App& app) {
  auto* const command = app.add_subcommand(
      "verify-run", "Check a run's files against its certificate, or one run against another");
  const auto arguments = std::make_shared<VerifyArguments>();
  command->add_option("run", arguments->run, "Directory of the run")->required();
  command->add_option(
      "--against", arguments->against,
      "Another run: say instead the first step or evaluation that differs, in what, "
      "and what the runs were started with otherwise");
  command->add_flag("--json", arguments->json, "Print JSON instead of lines");
  command->footer(
      "certificate.jsonl has for every step the bits of loss and gradient norm and digests of its\n"
      "samples and of weights, chained; beside them evaluations, and digests of each line of\n"
      "metrics.jsonl, of each start's files, and of the tensors of checkpoints, weights and\n"
      "averages. A line that is taken away shows in the next one; the last lines show in the "
      "other\n"
      "files. Runs with one chain did the same, whatever layouts they ran on. Ends with code 2\n"
      "where there is no certificate or two cannot be compared, with 4 where something does not\n"
      "agree.\n"
      "Example: trireme verify-run runs/book\n"
      "Example: trireme verify-run runs/book --against runs/book_on_8_ranks");
  on_one_process(*command, [arguments] { verify(*arguments); });
}

}  // namespace trireme
