// SPDX-License-Identifier: Apache-2.0
// Standard input, output and error as a process may find them: closed, full, or left by the reader.
#pragma once

namespace trireme {

// First in main. A standard descriptor that is closed becomes /dev/null, so that no file or socket
// of ours gets its number and the lines meant for the screen. What cannot be written to stdout or
// stderr any more is lost and ends no work: neither a reader who left ("| head -1") nor a full disk
// raises a signal or an error of stdio. Standard output shows what a terminal would obey
// (without_controls). Programs that the command starts find the usual signal.
void open_standard_streams() noexcept;

// For commands that do nothing but print, for as long as somebody reads: SIGPIPE ends them, as is
// usual.
void end_with_reader() noexcept;

// For commands whose output is text as a model or a user wrote it: a terminal gets it without what
// it would obey, as from all other commands, but a file or a program as it is. `to_terminals`:
// these too, as all that is in it is ours, colours among it.
void give_text_as_it_is(bool to_terminals = false) noexcept;

// Writes what is left. The errno of what was lost of standard output though its reader is there; 0:
// nothing.
[[nodiscard]] int flush_output() noexcept;

}  // namespace trireme
