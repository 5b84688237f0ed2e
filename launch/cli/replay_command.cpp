// SPDX-License-Identifier: Apache-2.0
#include "launch/cli/commands.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "launch/cli/number_check.h"
#include "launch/cli/shared_options.h"
#include "launch/replay/replay.h"
#include "launch/replay/verify_run.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

struct ReplayArguments : ReplayRequest {
  bool json = false;
};

void check_files(const ReplayArguments& arguments) {
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
       compares ? " and " + arguments.against + " differ" : " does not match the run",
       fmt::join(check.problems, "; "));
}

void replay_run(const ReplayRequest& request) {
  const RankProcess process;
  const ReplayReport report = replay(process, request);
  if (process.mpi.rank() == 0) {
    for (const std::string& line : report.lines)
      fmt::print("{}\n", line);
    std::fflush(stdout);
  }
  if (!report.tensor.empty())
    fail(ExitCode::checkpoint, "{} is not {}: {}{}", request.record, request.against, report.tensor,
         report.difference.empty() ? "" : ". It also differs from the run: " + report.difference);
  if (!report.same())
    fail(ExitCode::checkpoint, "{} does not replay: {}", request.run, report.difference);
}

}  // namespace

void add_replay_command(CLI::App& app) {
  auto* const command = app.add_subcommand(
      "replay", "Check a run's files against its certificate, or run steps of it again");
  const auto request = std::make_shared<ReplayArguments>();
  command->add_option("run", request->run, "Directory of the run")->required();
  auto* const step =
      command
          ->add_option("--step", request->step,
                       "Run this step again, as the run counts them (from 1), on any layout; "
                       "without, only files are read")
          ->check(integer_from(std::int64_t{1}));
  command->add_option("--steps", request->steps, "How many steps, from that one on")
      ->check(integer_from(std::int64_t{1}))
      ->needs(step);
  add_set_option(*command, request->overrides);
  command
      ->add_option("--record", request->record,
                   "Write a digest of every tensor of these steps (batches, outputs of layers, "
                   "gradients by micro-batch and reduced, weights) into this directory")
      ->needs(step);
  command->add_flag("--values", request->values, "Record every value too, 4 bytes each")
      ->needs(step);
  command->add_option(
      "--against", request->against,
      "Without --step: another run; print the first step or evaluation that differs, its "
      "difference, and differing settings. With --step: a recording of the same steps under "
      "another layout, program or machine; name the first tensor that differs");
  command->add_flag("--json", request->json, "Print JSON instead of lines")->excludes(step);
  command->footer(
      "certificate.jsonl has for every step the bits of loss and gradient norm and digests of its\n"
      "samples and of weights, chained; beside them evaluations, and digests of each line of\n"
      "metrics.jsonl, of each start's files, and of the tensors of checkpoints, weights and\n"
      "averages. A line that is taken away shows in the next one; the last lines show in the "
      "other\n"
      "files. Runs with one chain did the same, whatever layouts they ran on. Ends with code 2\n"
      "where there is no certificate or two cannot be compared, with 4 where something does not\n"
      "agree.\n"
      "With --step it begins with the run's nearest earlier checkpoint, else at its beginning, "
      "and\n"
      "writes nothing into the run. As many ranks as the run had replay its layout, others data\n"
      "parallelism; --set parallel.tensor=2 and its like name another. Ends with code 4 where a\n"
      "step is not what the certificate says; the message then ends with the two commands that\n"
      "name the first tensor that differs: one records the step where it is right, the other on\n"
      "the layout in question, --against the first.\n"
      "Example: trireme replay runs/book\n"
      "Example: trireme replay runs/book --against runs/book_on_8_ranks\n"
      "Example: trireme replay runs/book --step 1234 --record right --values\n"
      "Example: launch/mpi_run.sh -np 4 trireme replay runs/book --step 1234 --set "
      "parallel.tensor=2\n"
      "           --record other --values --against right");
  command->callback([request] {
    if (request->step > 0) return replay_run(*request);
    if (!request->overrides.empty())
      fail(ExitCode::config, "replay: --set {}: has no effect without --step",
           request->overrides.front());
    run_on_one_process([&] { check_files(*request); });
  });
}

}  // namespace trireme
