// SPDX-License-Identifier: Apache-2.0
// Standard input, output and error as a process may find them: closed, full, or left by the reader.
#pragma once

namespace trireme {

// First in main: a standard descriptor that is closed becomes /dev/null, so that no file or socket
// of ours gets its number and the lines meant for the screen.
void open_standard_descriptors() noexcept;

// For commands that must go on when nobody reads their output any more ("| head -1"). Others end by
// SIGPIPE, as is usual. Programs that the command starts find the usual signal again.
void outlive_readers() noexcept;

// Whether all that was printed arrived.
[[nodiscard]] bool flush_output() noexcept;

}  // namespace trireme
