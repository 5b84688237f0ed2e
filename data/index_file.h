// SPDX-License-Identifier: Apache-2.0
// Stores an index of files read in place with a run: a line with the request, the bytes, and a
// checksum of both.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

// Atomic. `request` is a line without its end.
void keep_index_file(const std::string& path, const std::string& request, std::string_view bytes);

// The bytes stored for the same request; "" otherwise.
[[nodiscard]] std::string kept_index_file(const std::string& path, const std::string& request);

}  // namespace trireme
