// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launch/cli_fwd.h"

namespace trireme {

// `trireme report`: reads run directories and writes nothing into them but report.html.
void add_report_command(CLI::App& app);

}  // namespace trireme
