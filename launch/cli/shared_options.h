// SPDX-License-Identifier: Apache-2.0
// Options that several commands have, declared once. What is filled in must outlive the parsing.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launch/engine/state/loaded_weights.h"
#include "launch/guard.h"

namespace trireme {

// --set KEY=VALUE, any number of times; `what` ends its description: ": device.type, ...".
void add_set_option(CLI::App& command, std::vector<std::string>& overrides,
                    const std::string& what = "");
// The positional `config`, described by `what`, and --set. Returns the former.
CLI::Option* add_config_options(CLI::App& command, std::string& config,
                                std::vector<std::string>& overrides,
                                const std::string& what = "YAML file, see configs/");

// A command line without the program's name, with current command names: old names still work, but
// are in no --help, and a notice on stderr gives the new ones.
[[nodiscard]] std::vector<std::string> with_current_commands(std::vector<std::string> words);

// --weights (or --checkpoint) and --average.
void add_weights_options(CLI::App& command, WeightsChoice& choice);

// The work of one process: under mpirun or srun the first rank does it, so
// that nothing is printed or written twice, and the others end with it.
void run_on_one_process(const std::function<void()>& work);
// A command that is nothing else.
void on_one_process(CLI::App& command, std::function<void()> work);

// For commands that start jobs: refuses to run as a rank of a job, because every rank would start
// the same jobs.
void require_no_ranks(const CLI::App& command);

}  // namespace trireme
