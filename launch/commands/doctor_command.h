// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

namespace trireme {

void add_doctor_command(CLI::App& app);

}  // namespace trireme
