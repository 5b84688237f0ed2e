// SPDX-License-Identifier: Apache-2.0
// Self-contained pages: a report's text as HTML, its numbers as JSON for the page's own scripts
// (page/), which draw them with uPlot (uplot/). They fetch nothing.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::report {

// Files of page/ and uplot/, embedded by the build (scripts/cmake/EmbedFiles.cmake).
namespace assets {
[[nodiscard]] std::string_view page_style();
[[nodiscard]] std::string_view page_script();
[[nodiscard]] std::string_view uplot_style();
[[nodiscard]] std::string_view uplot_script();
[[nodiscard]] std::string_view uplot_licence();
}  // namespace assets

// Escapes & < > " ' and replaces invalid UTF-8: safe as text and in quotes.
[[nodiscard]] std::string escaped(std::string_view text);
// JSON that is safe in a script element; invalid UTF-8 is replaced.
[[nodiscard]] std::string json_for_script(const nlohmann::ordered_json& json);
// With six digits each; non-finite values are null.
[[nodiscard]] nlohmann::ordered_json json_numbers(std::span<const double> values);

// A large number at the top of a page.
struct Headline {
  std::string number, meaning;  // text
};
[[nodiscard]] std::string headline_html(std::span<const Headline> numbers);
// The bottleneck and its details, both as text; empty without a bottleneck.
[[nodiscard]] std::string bottleneck_html(std::string_view bottleneck, std::string_view details);
// The list of what went wrong; empty for none.
struct Failure {
  std::string who, what;  // text; `who` may be empty
};
[[nodiscard]] std::string failures_html(std::span<const Failure> failures);
// The choice of the charts' x axis; `options` are pairs of value and text.
[[nodiscard]] std::string axis_choice_html(
    std::string_view label, std::span<const std::pair<std::string_view, std::string_view>> options,
    std::string_view selected);
// HTML that is closed until the reader opens it; `title` is text.
[[nodiscard]] std::string folded(std::string_view title, std::string_view body);
// Text of several lines, closed likewise; empty without text.
[[nodiscard]] std::string folded_text(std::string_view title, std::string_view text);
// Text as items of a list.
[[nodiscard]] std::string list_html(std::span<const std::string> items);

// A page with charts: `data` is for page/page.js; `body` is HTML.
[[nodiscard]] std::string html_page(std::string_view title, std::string_view body,
                                    const nlohmann::ordered_json& data);
// The same look without charts or scripts; the browser reloads it after `seconds` seconds.
[[nodiscard]] std::string text_page(std::string_view title, std::string_view body,
                                    int refresh_seconds);

}  // namespace trireme::report
