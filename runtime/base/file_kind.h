// SPDX-License-Identifier: Apache-2.0
// Recognises a file by its first bytes, for messages about files of an unexpected kind.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/error.h"

namespace trireme {

// Enough to recognise all known kinds.
inline constexpr std::size_t file_kind_bytes = 1024;

// Completes "it is ...": "an HTML page, perhaps a log-in or error page of a server; download the
// file again". Shows the first bytes of an unknown kind. `first`: the file's first file_kind_bytes,
// or all of it if it is shorter.
[[nodiscard]] std::string describe_first_bytes(std::string_view first);

// The same of a kind that is known and no text, else "".
[[nodiscard]] std::string binary_kind_of(std::string_view first);

// The same as describe_first_bytes() for a regular file.
[[nodiscard]] std::string describe_file_kind(const std::string& path, ExitCode code);

}  // namespace trireme
