// SPDX-License-Identifier: Apache-2.0
// What was learned of files that are read in place, kept beside a run: bytes behind a line that
// says what was asked for, and a checksum of both.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

// Atomic. `request` is a line without its end.
void keep_index_file(const std::string& path, const std::string& request, std::string_view bytes);

// What keep_index_file wrote for the same request; "" for anything else.
[[nodiscard]] std::string kept_index_file(const std::string& path, const std::string& request);

}  // namespace trireme
