// SPDX-License-Identifier: Apache-2.0
#include "launch/cli/commands.h"

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <memory>

#include "launch/cli/number_check.h"
#include "launch/cli/shared_options.h"
#include "launch/replay/replay.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

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
         report.difference.empty() ? "" : ". Nor is the replay the run: " + report.difference);
  if (!report.same())
    fail(ExitCode::checkpoint, "{} does not replay: {}", request.run, report.difference);
}

}  // namespace

void add_replay_command(CLI::App& app) {
  auto* const command = app.add_subcommand(
      "replay", "Run steps of a run again, on any layout, and compare them with its certificate");
  const auto request = std::make_shared<ReplayRequest>();
  command->add_option("run", request->run, "Directory of the run")->required();
  command->add_option("--step", request->step, "The step, as the run counts them (from 1)")
      ->required()
      ->check(integer_from(std::int64_t{1}));
  command->add_option("--steps", request->steps, "How many steps, from that one on")
      ->check(integer_from(std::int64_t{1}));
  add_set_option(*command, request->overrides);
  command->add_option("--record", request->record,
                      "Write a digest of every tensor of these steps (batches, outputs of layers, "
                      "gradients by micro-batch and reduced, weights) into this directory");
  command->add_flag("--values", request->values, "Record every value too, 4 bytes each");
  command->add_option("--against", request->against,
                      "Compare what is recorded with this recording, of the same steps under "
                      "another layout, program or machine, and name the first tensor that differs");
  command->footer(
      "Begins with the run's nearest earlier checkpoint, else at its beginning, and writes "
      "nothing\n"
      "into the run. As many ranks as the run had replay its layout, others data parallelism;\n"
      "--set parallel.tensor=2 and its like name another. Ends with code 4 where a step is not\n"
      "what the certificate says; the message then ends with the two commands that name the first\n"
      "tensor that differs: one records the step where it is right, the other on the layout in\n"
      "question, --against the first. Of two runs, trireme verify-run --against names the step.\n"
      "Example: trireme replay runs/book --step 1234 --steps 10\n"
      "Example: trireme replay runs/book --step 1234 --record right --values\n"
      "Example: mpirun -np 4 trireme replay runs/book --step 1234 --set parallel.tensor=2\n"
      "           --record other --values --against right");
  command->callback([request] { replay_run(*request); });
}

}  // namespace trireme
