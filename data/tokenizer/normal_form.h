// SPDX-License-Identifier: Apache-2.0
// Unicode normalization form C: composes letters and accents into single code points.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

// NFC of valid UTF-8. Returns `text` itself, or a view of `buffer`.
[[nodiscard]] std::string_view composed(std::string_view text, std::string& buffer);

}  // namespace trireme
