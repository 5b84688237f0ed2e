// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include "launch/bench_command.h"
#include "launch/checkpoint_command.h"
#include "launch/data_command.h"
#include "launch/doctor_command.h"
#include "launch/eval_command.h"
#include "launch/generate_command.h"
#include "launch/guard.h"
#include "launch/plan_command.h"
#include "launch/scale_command.h"
#include "launch/train_command.h"
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
