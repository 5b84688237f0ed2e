// SPDX-License-Identifier: Apache-2.0
// Checks of config text before parsing.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace trireme::config {

// Refuses (ExitCode::config, "name:line: ...") control characters, invalid UTF-8, tabs as
// indentation, and more than max_bytes.
void check_text(std::string_view text, std::string_view name);

// True for text without control characters.
[[nodiscard]] bool is_printable(std::string_view text);

// `text` for messages: control characters as \xNN, cut after 60 bytes.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace trireme::config
