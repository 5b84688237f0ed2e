// SPDX-License-Identifier: Apache-2.0
// Text rules that come before and beside YAML.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace trireme::config {

// Refuses (ExitCode::config, "name:line: ...") what cannot be a config: control characters, bytes
// that are not UTF-8, tabs as indentation, more than max_bytes.
void check_text(std::string_view text, std::string_view name);

// True for text without control characters.
[[nodiscard]] bool is_printable(std::string_view text);

// `text` for a message: control characters shown as \xNN, cut after 60 bytes.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace trireme::config
