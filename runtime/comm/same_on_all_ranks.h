// SPDX-License-Identifier: Apache-2.0
// Whether all ranks start from the same thing: a config, a program version, a list of files.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "runtime/comm/communicator.h"

namespace trireme {

// Compares an XXH3 digest over all ranks; collective, blocks the host. When one differs, every rank
// raises ExitCode::config naming `what`, rank 0 and the first rank that differs from it; for text
// also the first line that differs, as both have it. Only then is the text sent.
void check_same_on_all_ranks(Communicator& world, std::string_view what, std::string_view text);
void check_same_on_all_ranks(Communicator& world, std::string_view what,
                             std::span<const std::byte> bytes);

}  // namespace trireme
