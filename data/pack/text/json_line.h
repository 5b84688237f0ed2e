// SPDX-License-Identifier: Apache-2.0
// A line of a JSON lines file: an object with the text in one field.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

// Reads the text of `field`. False if there is none; then `text` has the reason.
[[nodiscard]] bool read_json_line(std::string_view line, const std::string& field,
                                  std::string& text);

}  // namespace trireme
