// SPDX-License-Identifier: Apache-2.0
#include "launch/cli/commands.h"

#include <CLI/CLI.hpp>

namespace trireme {

void add_bench_command(CLI::App& app) {
  auto* const command =
      app.add_subcommand("bench", "Measure this machine for the planner, and parts of the runtime");
  command->require_subcommand(1);
  command->footer(
      "Example: mpirun -np 4 trireme bench machine configs/gpt_tiny.yaml --out this_machine.yaml\n"
      "The others are for work on Trireme itself.");
  add_bench_machine(*command);
  add_bench_data(*command);
  add_bench_checkpoint(*command);
  add_bench_kernels(*command);
  add_bench_coordinates(*command);
}

}  // namespace trireme
