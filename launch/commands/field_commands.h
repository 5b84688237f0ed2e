// SPDX-License-Identifier: Apache-2.0
// `trireme data describe | statistics | preview`: HDF5 files that are read in place.
#pragma once

#include "launch/cli_fwd.h"

namespace trireme {

void add_field_commands(CLI::App& data);

}  // namespace trireme
