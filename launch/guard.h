// SPDX-License-Identifier: Apache-2.0
// Wraps every command: one error message, the right exit code, and the end of the whole job.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launch/cli_fwd.h"

namespace trireme {

// Runs `body` and returns its exit code. Prints an exception as "[rank 3/8 host] message" and ends
// every rank of the job with its code (ExitCode::internal for anything but an Error). Rank 0 alone
// prints an error that all ranks have in common.
[[nodiscard]] int guarded_main(const std::function<int()>& body);

// This process's rank from its launcher, for use before MPI is up; 0 without one.
[[nodiscard]] int launcher_rank();

// Parses and runs the subcommand's callback. Usage errors exit with ExitCode::config.
[[nodiscard]] int parse_and_run(CLI::App& app, int argc, char** argv);

// The main function: all commands, guarded. Returns the exit code.
[[nodiscard]] int run_program(int argc, char** argv);

// Advice for an invalid command line: names the wrong word and the probable one, or the commands if
// one is missing, else the message of `error`. `words` are the arguments after the program's name.
[[nodiscard]] std::string usage_advice(const CLI::App& app, const std::vector<std::string>& words,
                                       const CLI::ParseError& error);

}  // namespace trireme
