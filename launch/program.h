// SPDX-License-Identifier: Apache-2.0
// The command line: every command, what stands around them, and their exit codes.
#pragma once

namespace trireme {

// What main does; returns its exit code.
[[nodiscard]] int run_program(int argc, char** argv);

}  // namespace trireme
