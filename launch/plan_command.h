// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

namespace trireme {

// `trireme plan [CONFIG] [--set key=value]... --print-schedule [--stages N] [--micro-batches M]
// [--chunks C] [--schedule KIND] [--ranks N] [--width COLUMNS]`
void add_plan_command(CLI::App& app);

}  // namespace trireme
