// SPDX-License-Identifier: Apache-2.0
// Byte-level tokenizers write every byte as a printable letter (space as U+0120), so tokens are
// text in their files.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace trireme {

// The bytes of `token`, valid UTF-8; nothing if a letter means no byte.
[[nodiscard]] std::optional<std::string> bytes_of_letters(std::string_view token);

}  // namespace trireme
