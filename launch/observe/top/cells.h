// SPDX-License-Identifier: Apache-2.0
// Fits text to terminal columns: cutting, padding, bars and sparklines.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace trireme::top {

// Whether the locale variables select UTF-8; otherwise output is ASCII.
[[nodiscard]] bool locale_has_utf8();

// `text`, possibly untrusted, without cursor movements and invalid UTF-8; if `utf8` is false also
// without non-ASCII.
[[nodiscard]] std::string clean(std::string_view text, bool utf8);
// Number of columns of clean text.
[[nodiscard]] std::size_t columns_of(std::string_view text);
// Bytes of the longest prefix of clean text that takes at most `columns` columns.
[[nodiscard]] std::size_t bytes_within(std::string_view text, std::size_t columns);
// At most `columns` of clean text; a longer one ends with "..".
[[nodiscard]] std::string cut(std::string_view text, std::size_t columns);
// The same; a longer one begins with ".." and keeps its end.
[[nodiscard]] std::string cut_front(std::string_view text, std::size_t columns);
// Exactly `columns` columns.
[[nodiscard]] std::string padded(std::string_view text, std::size_t columns);

// Formatted with `form`; "-" if not finite.
[[nodiscard]] std::string number_text(double value, const char* form);
// A bar of `share` (0..1) of the columns.
[[nodiscard]] std::string bar(double share, std::size_t columns, bool utf8);
// One column per value, scaled from minimum to maximum; NaN is blank.
[[nodiscard]] std::string sparkline(std::span<const double> values, bool utf8);

}  // namespace trireme::top
