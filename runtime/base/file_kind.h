// SPDX-License-Identifier: Apache-2.0
// What a file is, from its first bytes: for messages about a file that is not of the kind that was
// expected.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/error.h"

namespace trireme {

// As many bytes tell all kinds that are known.
inline constexpr std::size_t file_kind_bytes = 1024;

// Completes "it is ...": "an HTML page, perhaps a log-in or error page of a server; download the
// file again". Names the first bytes where they are of no kind that is known. `first`: the file's
// first bytes, all of it where it is shorter than file_kind_bytes.
[[nodiscard]] std::string describe_first_bytes(std::string_view first);

// The same for a regular file that can be opened.
[[nodiscard]] std::string describe_file_kind(const std::string& path, ExitCode code);

}  // namespace trireme
