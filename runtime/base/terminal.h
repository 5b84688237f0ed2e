// SPDX-License-Identifier: Apache-2.0
// Detects whether a person watches, and shares the terminal with the progress line.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>

namespace trireme {

// Columns of the terminal of `descriptor` (1 or 2 under mpirun); 0 if it is no terminal or cannot
// redraw (TERM=dumb). Under mpirun a rank writes to a pipe or to a pseudo-terminal without a size;
// then this returns the width of mpirun's own output.
[[nodiscard]] std::size_t terminal_width(int descriptor);

// The start of a line to `descriptor`: on a terminal it erases a progress line that a process of
// the job may show there. Loggers write it too. The cursor rests at the start of that line, so
// output of others overwrites it.
[[nodiscard]] std::string_view line_start(int descriptor);

// Whether that output reaches a terminal, or mpirun's if mpirun started the process.
[[nodiscard]] bool is_terminal(int descriptor);

// Escapes terminal control characters in `text` as \u001b (valid JSON stays the same JSON), because
// names in foreign files may contain them. Keeps line ends and tabs. `before`: the preceding byte.
[[nodiscard]] std::string without_controls(std::string_view text, char before = '\0');
// The same for a message to people; also cuts texts of thousands of characters.
[[nodiscard]] std::string for_people(std::string_view text);

// Held while a logger (log.h) writes a line; all other writers to the terminal take it too.
[[nodiscard]] std::mutex& terminal_mutex();

}  // namespace trireme
