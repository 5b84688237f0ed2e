// SPDX-License-Identifier: Apache-2.0
// Self-contained pages: a report's text as HTML, its numbers as JSON for the page's own scripts
// (page/), which draw them with uPlot (uplot/). Nothing is fetched from anywhere.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace trireme::report {

// & < > " ' as HTML wants them, and what is no UTF-8 replaced: safe as text and within quotes.
[[nodiscard]] std::string escaped(std::string_view text);
// A JSON string in quotes that is harmless within a script element, whatever it holds.
[[nodiscard]] std::string json_string(std::string_view text);
// The same for a whole document of JSON.
[[nodiscard]] std::string json_for_script(std::string_view json);
// "[1,null,2.5]", six digits each; what is not finite is null.
[[nodiscard]] std::string json_numbers(std::span<const double> values);

// One of the large numbers at the head of a page.
struct Headline {
  std::string number, meaning;  // text
};
[[nodiscard]] std::string headline_html(std::span<const Headline> numbers);
// What follows from them, both as text; empty without a verdict.
[[nodiscard]] std::string verdict_html(std::string_view verdict, std::string_view details);

struct PageParts {
  std::string title;  // text
  std::string body;   // HTML
  std::string data;   // JSON made of the two functions above
};
[[nodiscard]] std::string html_page(const PageParts& parts);
// The same look without charts or scripts; a browser reads it again after so many seconds.
[[nodiscard]] std::string text_page(std::string_view title, std::string_view body,
                                    int refresh_seconds);

}  // namespace trireme::report
