// SPDX-License-Identifier: Apache-2.0
// Self-contained pages: a report's text as HTML, its numbers as JSON for the page's own scripts
// (page/), which draw them with uPlot (uplot/). They fetch nothing.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace trireme::report {

// Escapes & < > " ' and replaces invalid UTF-8: safe as text and in quotes.
[[nodiscard]] std::string escaped(std::string_view text);
// A JSON string in quotes that is safe in a script element.
[[nodiscard]] std::string json_string(std::string_view text);
// The same for a JSON document.
[[nodiscard]] std::string json_for_script(std::string_view json);
// "[1,null,2.5]", six digits each; non-finite values are null.
[[nodiscard]] std::string json_numbers(std::span<const double> values);

// A large number at the top of a page.
struct Headline {
  std::string number, meaning;  // text
};
[[nodiscard]] std::string headline_html(std::span<const Headline> numbers);
// The verdict and its details, both as text; empty without a verdict.
[[nodiscard]] std::string verdict_html(std::string_view verdict, std::string_view details);

struct PageParts {
  std::string title;  // text
  std::string body;   // HTML
  std::string data;   // JSON from the two functions above
};
[[nodiscard]] std::string html_page(const PageParts& parts);
// The same look without charts or scripts; the browser reloads it after `seconds` seconds.
[[nodiscard]] std::string text_page(std::string_view title, std::string_view body,
                                    int refresh_seconds);

}  // namespace trireme::report
