// SPDX-License-Identifier: Apache-2.0
// The subcommands of `trireme`. Each function adds one, with its options and its action, to the
// program or to its group; a command raises Error. Its --help documents input and output.
#pragma once

#include <string>
#include <vector>

#include "launch/guard.h"

namespace trireme {

// Ranks of a job. `command_line` is recorded in environment.json.
void add_train_command(CLI::App& app, std::vector<std::string> command_line);
void add_eval_command(CLI::App& app);
void add_generate_command(CLI::App& app);
void add_replay_command(CLI::App& app);
void add_doctor_command(CLI::App& app);
void add_bench_command(CLI::App& app);

// One process that starts jobs, and no rank itself.
void add_scale_command(CLI::App& app);
void add_campaign_command(CLI::App& app);
void add_ablate_command(CLI::App& app);
void add_supervise_command(CLI::App& app, const std::vector<std::string>& command_line);

// One process. plan raises ExitCode::config if the plan does not fit.
void add_plan_command(CLI::App& app);

// One process that reads run directories and writes nothing into them, but report its report.html.
void add_report_command(CLI::App& app);
void add_top_command(CLI::App& app);
void add_trace_command(CLI::App& app);

// `trireme data ...`.
void add_data_commands(CLI::App& app);
void add_data_inspect(CLI::App& data);
void add_data_preview(CLI::App& data);

// `trireme checkpoint ...`.
void add_checkpoint_commands(CLI::App& app);
void add_exchange_commands(CLI::App& checkpoint);

// `trireme bench ...`. coordinates: the check of Yang et al., "Tensor Programs V", 2022, appendix
// D.1.
void add_bench_checkpoint(CLI::App& bench);
void add_bench_coordinates(CLI::App& bench);
void add_bench_data(CLI::App& bench);
void add_bench_kernels(CLI::App& bench);
void add_bench_machine(CLI::App& bench);

}  // namespace trireme
