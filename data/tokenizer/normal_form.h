// SPDX-License-Identifier: Apache-2.0
// Unicode normalization form C: letters and their accents as one code point where there is one.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

// NFC of valid UTF-8. Gives `text` itself, or what it has put into `buffer`.
[[nodiscard]] std::string_view composed(std::string_view text, std::string& buffer);

}  // namespace trireme
