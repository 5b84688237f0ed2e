// SPDX-License-Identifier: Apache-2.0
// Private to this room: what threads that end the job need besides abort_job().
#pragma once

#include <string>

namespace trireme {

// "[rank 0/4 node7] error: <text>" on stderr, past stdio, whose locks a blocked thread may hold.
void print_error(const std::string& text) noexcept;

// abort_job() calls it right before the process ends, from any thread. One for the process.
void set_abort_hook(void (*hook)() noexcept) noexcept;

}  // namespace trireme
