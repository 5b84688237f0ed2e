// SPDX-License-Identifier: Apache-2.0
#include "launch/observe/report/html.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/base/json.h"

namespace trireme::report {
namespace {

using nlohmann::ordered_json;

// Invalid UTF-8 becomes U+FFFD.
std::string json_text(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

// The policy blocks all external content.
std::string page_head(std::string_view title, std::string_view scripts) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "{}style-src 'unsafe-inline'\">\n<title>{}</title>\n",
      scripts, escaped(title));
}

std::string page_main(std::string_view title, std::string_view body) {
  return fmt::format("</head>\n<body>\n<main>\n<h1>{}</h1>\n{}</main>\n", escaped(title), body);
}

}  // namespace

std::string json_for_script(const ordered_json& json) {
  std::string safe;
  for (const char letter : json_text(json)) {
    // Escapes "</script>" and "<!--"; in JSON these letters occur in strings only.
    if (letter == '<' || letter == '>' || letter == '&')
      safe += fmt::format("\\u{:04x}", static_cast<unsigned>(letter));
    else
      safe += letter;
  }
  return safe;
}

std::string escaped(std::string_view text) {
  const auto clean = parse_json(json_text(text)).get<std::string>();
  std::string safe;
  for (const char letter : clean) {
    constexpr std::string_view special = "&<>\"'";
    constexpr std::string_view names[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
    const std::size_t found = special.find(letter);
    if (found != std::string_view::npos)
      safe += names[found];
    else
      safe += letter == '\0' ? ' ' : letter;
  }
  return safe;
}

ordered_json json_numbers(std::span<const double> values) {
  ordered_json numbers = ordered_json::array();
  for (const double value : values) {
    const double number = std::isfinite(value) ? std::stod(fmt::format("{:.6g}", value)) : value;
    constexpr double exact = 1e15;
    if (number == std::trunc(number) && std::abs(number) < exact)
      numbers.push_back(static_cast<std::int64_t>(number));  // "5" instead of "5.0"
    else
      numbers.push_back(number);
  }
  return numbers;
}

std::string headline_html(std::span<const Headline> numbers) {
  std::string text;
  for (const auto& [number, meaning] : numbers)
    text += fmt::format("<div><b>{}</b><span>{}</span></div>\n", escaped(number), escaped(meaning));
  return text.empty() ? "" : "<div class=\"headline\">\n" + text + "</div>\n";
}

std::string bottleneck_html(std::string_view bottleneck, std::string_view details) {
  if (bottleneck.empty()) return {};
  return fmt::format("<p class=\"bottleneck\"><strong>bottleneck: {}</strong>{}{}</p>\n",
                     escaped(bottleneck), details.empty() ? "" : "\n", escaped(details));
}

std::string failures_html(std::span<const Failure> failures) {
  std::string text;
  for (const auto& [who, what] : failures)
    text += fmt::format("<li>{}{}</li>\n",
                        who.empty() ? "" : fmt::format("<b>{}</b> ", escaped(who)), escaped(what));
  if (text.empty()) return {};
  return "<div class=\"failure\"><strong>What went wrong</strong><ul>\n" + text + "</ul></div>\n";
}

std::string axis_choice_html(std::string_view label,
                             std::span<const std::pair<std::string_view, std::string_view>> options,
                             std::string_view selected) {
  std::string text;
  for (const auto& [value, name] : options)
    text += fmt::format("<option value=\"{}\"{}>{}</option>", value,
                        value == selected ? " selected" : "", name);
  return fmt::format(
      "<div class=\"bar\"><label for=\"axis\">{}</label><select id=\"axis\" autocomplete=\"off\">{}"
      "</select><span class=\"soft\">Drag over a chart to look closer, double click or Escape to "
      "go "
      "back; click a name to hide it.</span></div>\n"
      "<noscript><p class=\"notes\">The charts need JavaScript; everything else is here.</p>"
      "</noscript>\n",
      label, text);
}

std::string folded(std::string_view title, std::string_view body) {
  return fmt::format("<details><summary>{}</summary>{}</details>\n", escaped(title), body);
}

std::string folded_text(std::string_view title, std::string_view text) {
  if (text.empty()) return {};
  return folded(title, fmt::format("<pre tabindex=\"0\">{}</pre>", escaped(text)));
}

std::string list_html(std::span<const std::string> items) {
  std::string text = "<ul>\n";
  for (const std::string& item : items)
    text += fmt::format("<li>{}</li>\n", escaped(item));
  return text + "</ul>\n";
}

std::string html_page(std::string_view title, std::string_view body, const ordered_json& data) {
  return fmt::format(
      "{}<style>{}\n{}</style>\n{}<script type=\"application/json\" id=\"data\">{}</script>\n"
      "<script>/*!\n{}*/\n{}</script>\n<script>{}</script>\n</body>\n</html>\n",
      page_head(title, "script-src 'unsafe-inline'; "), assets::uplot_style(), assets::page_style(),
      page_main(title, body), json_for_script(data), assets::uplot_licence(),
      assets::uplot_script(), assets::page_script());
}

std::string text_page(std::string_view title, std::string_view body, int refresh_seconds) {
  return fmt::format(
      "{}<meta http-equiv=\"refresh\" content=\"{}\">\n<style>{}</style>\n{}</body>\n</html>\n",
      page_head(title, ""), refresh_seconds, assets::page_style(), page_main(title, body));
}

}  // namespace trireme::report
