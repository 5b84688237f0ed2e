// SPDX-License-Identifier: Apache-2.0
// Wraps every command: one error message, the right exit code, and the end of the whole job.
#pragma once

#include <functional>
#include <string>
#include <vector>

// CLI11's types: including the library costs seconds per source.
namespace CLI {
class App;
class Option;
class ParseError;
}  // namespace CLI

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

namespace trireme {

// Handles standard streams that are closed, full, or have lost their reader.

// Call it first in main. Redirects a closed standard descriptor to /dev/null, so that no file or
// socket gets its number. Output that cannot be written is lost without an error: neither a reader
// that left ("| head -1") nor a full disk raises a signal or a stdio error. Escapes control
// characters for a terminal on standard output (without_controls). Child processes get the default
// signal action.
void open_standard_streams() noexcept;

// For commands that only print: SIGPIPE ends them, as usual.
void end_with_reader() noexcept;

// For commands that output a model's or user's text: terminals get it escaped, as from all
// commands, but files and programs get it unchanged. `to_terminals`: terminals too, for output that
// is entirely Trireme's, with colours.
void give_text_as_it_is(bool to_terminals = false) noexcept;

// Flushes. Returns the errno of lost standard output whose reader still exists; 0: none.
[[nodiscard]] int flush_output() noexcept;

}  // namespace trireme
