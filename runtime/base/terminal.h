// SPDX-License-Identifier: Apache-2.0
// Finding out whether a person watches, and sharing the terminal with the line that shows progress.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>

namespace trireme {

// Columns of the terminal behind `descriptor`, 1 or 2 under mpirun; 0 where it is none, or one that
// cannot redraw (TERM=dumb). Under mpirun a rank writes to a pipe, or to a pseudo-terminal of
// mpirun's that has no size; there the answer is that of mpirun's own output.
[[nodiscard]] std::size_t terminal_width(int descriptor);

// What a line to `descriptor` begins with: on a terminal, the removal of a progress line that some
// process of the job may show there. Loggers write it too. The cursor rests at the start of that
// line, so that whatever is written by others covers it.
[[nodiscard]] std::string_view line_start(int descriptor);

// Whether what is written there reaches a terminal, of mpirun's where that started the process.
[[nodiscard]] bool is_terminal(int descriptor);

// `text` with what a terminal obeys shown instead, as \u001b (JSON stays the same JSON): names in
// files of others may hold it. Line ends and tabs stay. `before`: the byte in front of it.
[[nodiscard]] std::string without_controls(std::string_view text, char before = '\0');
// The same for a message to people, which is cut where it has thousands of characters.
[[nodiscard]] std::string for_people(std::string_view text);

// Held while a logger (log.h) writes a line; for what else writes to the terminal.
[[nodiscard]] std::mutex& terminal_mutex();

}  // namespace trireme
