// SPDX-License-Identifier: Apache-2.0
// Checks the part of a SentencePiece model that its library reads without bounds checks.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

// Raises ExitCode::data, naming `path`, for a model (a ModelProto in protobuf wire format) that is
// truncated, or whose character tables (a Darts-clone trie and the texts of its leaves) some input
// could read out of bounds.
void check_char_maps(std::string_view model, const std::string& path);

}  // namespace trireme
