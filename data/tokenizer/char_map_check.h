// SPDX-License-Identifier: Apache-2.0
// The one part of a SentencePiece model that its library follows without looking where it leads.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

// Raises ExitCode::data, naming `path`, for a model (a message ModelProto in the wire format of
// Protocol Buffers) that is cut, or in whose tables of characters (a trie as of Darts-clone, and
// the texts that its leaves name) any text could lead out of the table.
void check_char_maps(std::string_view model, const std::string& path);

}  // namespace trireme
