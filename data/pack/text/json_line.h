// SPDX-License-Identifier: Apache-2.0
// One line of a JSON lines file: an object, of which one field is the text.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

// The text of `field`. False where there is none; then `text` says why.
[[nodiscard]] bool read_json_line(std::string_view line, const std::string& field,
                                  std::string& text);

}  // namespace trireme
