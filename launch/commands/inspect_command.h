// SPDX-License-Identifier: Apache-2.0
// `trireme data inspect | verify`.
#pragma once

#include "launch/cli_fwd.h"

namespace trireme {

void add_data_inspect(CLI::App& data);
void add_data_verify(CLI::App& data);

}  // namespace trireme
