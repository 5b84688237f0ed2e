// SPDX-License-Identifier: Apache-2.0

#include <CLI/CLI.hpp>

#include "launch/cli/commands.h"
#include "launch/guard.h"
#include "runtime/telemetry/environment.h"

namespace trireme {

int run_program(int argc, char** argv) {
  return guarded_main([&] {
    CLI::App app{
        "Trireme: distributed training of transformers and CNNs from one config file.\n"
        "Example: mpirun -np 4 trireme train configs/gpt_tiny.yaml --set train.steps=50"};
    app.name("trireme");
    app.set_version_flag("--version", version_text());
    app.require_subcommand(1);
    add_train_command(app, {argv, argv + argc});
    add_plan_command(app);
    add_scale_command(app);
    add_campaign_command(app);
    add_ablate_command(app);
    add_supervise_command(app, {argv, argv + argc});
    add_report_command(app);
    add_replay_command(app);
    add_top_command(app);
    add_trace_command(app);
    add_doctor_command(app);
    add_eval_command(app);
    add_generate_command(app);
    add_data_commands(app);
    add_checkpoint_commands(app);
    add_bench_command(app);
    return parse_and_run(app, argc, argv);
  });
}

}  // namespace trireme
