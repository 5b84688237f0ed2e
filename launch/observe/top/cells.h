// SPDX-License-Identifier: Apache-2.0
// Text that fits columns of a terminal: cut, padded, bars and sparklines.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace trireme::top {

// Whether the locale of this process's variables is one of UTF-8; else everything is ASCII.
[[nodiscard]] bool locale_has_utf8();

// `text`, which may be anybody's, without what moves a cursor or is no UTF-8; with `utf8` false
// without what is no ASCII.
[[nodiscard]] std::string clean(std::string_view text, bool utf8);
// Columns that clean text takes.
[[nodiscard]] std::size_t columns_of(std::string_view text);
// Bytes of the longest beginning of clean text that takes at most so many columns.
[[nodiscard]] std::size_t bytes_within(std::string_view text, std::size_t columns);
// At most `columns` of clean text; a longer one ends with "..".
[[nodiscard]] std::string cut(std::string_view text, std::size_t columns);
// The same; a longer one begins with ".." and keeps its end.
[[nodiscard]] std::string cut_front(std::string_view text, std::size_t columns);
// Exactly so many columns.
[[nodiscard]] std::string padded(std::string_view text, std::size_t columns);

// By fmt's `form`; "-" of what is not finite.
[[nodiscard]] std::string number_text(double value, const char* form);
// `share` (0..1) of so many columns.
[[nodiscard]] std::string bar(double share, std::size_t columns, bool utf8);
// One column a value, from the smallest to the largest of them; NaN leaves its column empty.
[[nodiscard]] std::string sparkline(std::span<const double> values, bool utf8);

}  // namespace trireme::top
