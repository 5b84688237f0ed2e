// SPDX-License-Identifier: Apache-2.0
#include "launch/observe/report/html.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "launch/observe/report/assets.h"
#include "runtime/base/json.h"

namespace trireme::report {
namespace {

// A quoted JSON string.
std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
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

std::string json_string(std::string_view text) {
  return json_for_script(json_text(text));
}

std::string json_for_script(std::string_view json) {
  std::string safe;
  for (const char letter : json) {
    // Escapes "</script>" and "<!--"; in JSON these letters occur in strings only.
    if (letter == '<' || letter == '>' || letter == '&')
      safe += fmt::format("\\u{:04x}", static_cast<unsigned>(letter));
    else
      safe += letter;
  }
  return safe;
}

std::string escaped(std::string_view text) {
  // A round trip through JSON turns invalid UTF-8 into U+FFFD.
  const auto clean = parse_json(json_text(text)).get<std::string>();
  std::string safe;
  for (const char letter : clean) {
    switch (letter) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\'':
        safe += "&#39;";
        break;
      default:
        safe += letter == '\0' ? ' ' : letter;
    }
  }
  return safe;
}

std::string json_numbers(std::span<const double> values) {
  std::string text = "[";
  for (const double value : values) {
    if (text.size() > 1) text += ',';
    if (std::isfinite(value))
      fmt::format_to(std::back_inserter(text), "{:.6g}", value);
    else
      text += "null";
  }
  return text + "]";
}

std::string headline_html(std::span<const Headline> numbers) {
  std::string text;
  for (const auto& [number, meaning] : numbers)
    text += fmt::format("<div><b>{}</b><span>{}</span></div>\n", escaped(number), escaped(meaning));
  return text.empty() ? "" : "<div class=\"headline\">\n" + text + "</div>\n";
}

std::string verdict_html(std::string_view verdict, std::string_view details) {
  if (verdict.empty()) return {};
  return fmt::format("<p class=\"verdict\"><strong>verdict: {}</strong>{}{}</p>\n",
                     escaped(verdict), details.empty() ? "" : "\n", escaped(details));
}

std::string html_page(const PageParts& parts) {
  return fmt::format(
      "{}<style>{}\n{}</style>\n{}<script type=\"application/json\" id=\"data\">{}</script>\n"
      "<script>/*!\n{}*/\n{}</script>\n<script>{}</script>\n</body>\n</html>\n",
      page_head(parts.title, "script-src 'unsafe-inline'; "), assets::uplot_style(),
      assets::page_style(), page_main(parts.title, parts.body), parts.data, assets::uplot_licence(),
      assets::uplot_script(), assets::page_script());
}

std::string text_page(std::string_view title, std::string_view body, int refresh_seconds) {
  return fmt::format(
      "{}<meta http-equiv=\"refresh\" content=\"{}\">\n<style>{}</style>\n{}</body>\n</html>\n",
      page_head(title, ""), refresh_seconds, assets::page_style(), page_main(title, body));
}

}  // namespace trireme::report
