// SPDX-License-Identifier: Apache-2.0
// Handles standard streams that are closed, full, or have lost their reader.
#pragma once

namespace trireme {

// Call it first in main. Redirects a closed standard descriptor to /dev/null, so that no file or
// socket gets its number. Output that cannot be written is lost without an error: neither a reader
// that left ("| head -1") nor a full disk raises a signal or a stdio error. Escapes control
// characters for a terminal on standard output (without_controls). Child processes get the default
// signal action.
void open_standard_streams() noexcept;

// For commands that only print: SIGPIPE ends them, as usual.
void end_with_reader() noexcept;

// For commands that output a model's or user's text: terminals get it escaped, as from all
// commands, but files and programs get it unchanged. `to_terminals`: terminals too, for output that
// is entirely Trireme's, with colours.
void give_text_as_it_is(bool to_terminals = false) noexcept;

// Flushes. Returns the errno of lost standard output whose reader still exists; 0: none.
[[nodiscard]] int flush_output() noexcept;

}  // namespace trireme
