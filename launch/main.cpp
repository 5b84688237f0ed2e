// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include "launch/commands/bench_command.h"
#include "launch/commands/checkpoint_command.h"
#include "launch/commands/data_command.h"
#include "launch/commands/doctor_command.h"
#include "launch/commands/eval_command.h"
#include "launch/commands/generate_command.h"
#include "launch/commands/plan_command.h"
#include "launch/commands/scale_command.h"
#include "launch/commands/train_command.h"
#include "launch/guard.h"
#include "runtime/telemetry/environment.h"

int main(int argc, char** argv) {
  return trireme::guarded_main([&] {
    CLI::App app{
        "Trireme: distributed training of transformers and CNNs from one config file.\n"
        "Example: mpirun -np 4 trireme train configs/gpt_tiny.yaml --set train.steps=50"};
    app.name("trireme");
    app.set_version_flag("--version", trireme::version_text());
    app.require_subcommand(1);
    trireme::add_train_command(app, {argv, argv + argc});
    trireme::add_plan_command(app);
    trireme::add_scale_command(app);
    trireme::add_doctor_command(app);
    trireme::add_eval_command(app);
    trireme::add_generate_command(app);
    trireme::add_data_commands(app);
    trireme::add_checkpoint_commands(app);
    trireme::add_bench_command(app);
    return trireme::parse_and_run(app, argc, argv);
  });
}
