// SPDX-License-Identifier: Apache-2.0
#include "launch/cli/commands.h"

#include <CLI/CLI.hpp>

namespace trireme {

void add_bench_command(CLI::App& app) {
  auto* const command = app.add_subcommand("bench", "Measure parts of the runtime");
  command->require_subcommand(1);
  command->footer(
      "Examples: trireme bench data data/kjv\n"
      "          mpirun -np 4 trireme bench comm configs/gpt_tiny.yaml");
  add_bench_data(*command);
  add_bench_checkpoint(*command);
  add_bench_model(*command);
  add_bench_kernels(*command);
  add_bench_comm(*command);
  add_bench_coordinates(*command);
}

}  // namespace trireme
