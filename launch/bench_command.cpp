// SPDX-License-Identifier: Apache-2.0
#include "launch/bench_command.h"

#include "launch/bench_checkpoint.h"
#include "launch/bench_data.h"

namespace trireme {

void add_bench_command(CLI::App& app) {
  auto* const command = app.add_subcommand("bench", "Measure parts of the runtime");
  command->require_subcommand(1);
  command->footer("Example: trireme bench data data/kjv");
  add_bench_checkpoint(*command);
  add_bench_data(*command);
}

}  // namespace trireme
