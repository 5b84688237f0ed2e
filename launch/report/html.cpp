// SPDX-License-Identifier: Apache-2.0
#include "launch/report/html.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "launch/report/assets.h"

namespace trireme::report {
namespace {

// Between two quotes.
std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::string json_string(std::string_view text) {
  return json_for_script(json_text(text));
}

std::string json_for_script(std::string_view json) {
  std::string safe;
  for (const char letter : json) {
    // Of "</script>" and "<!--" nothing may be left; in JSON they stand in strings only.
    if (letter == '<' || letter == '>' || letter == '&')
      safe += fmt::format("\\u{:04x}", static_cast<unsigned>(letter));
    else
      safe += letter;
  }
  return safe;
}

std::string escaped(std::string_view text) {
  // Through JSON and back: what is no UTF-8 becomes U+FFFD.
  const auto clean = nlohmann::json::parse(json_text(text)).get<std::string>();
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

std::string html_page(const PageParts& parts) {
  // The policy lets nothing in from elsewhere, even if something asked for it.
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "script-src 'unsafe-inline'; style-src 'unsafe-inline'\">\n"
      "<title>{0}</title>\n<style>{1}\n{2}</style>\n</head>\n<body>\n<main>\n<h1>{0}</h1>\n{3}"
      "</main>\n<script type=\"application/json\" id=\"data\">{4}</script>\n"
      "<script>/*!\n{5}*/\n{6}</script>\n<script>{7}</script>\n</body>\n</html>\n",
      escaped(parts.title), assets::uplot_style(), assets::page_style(), parts.body, parts.data,
      assets::uplot_licence(), assets::uplot_script(), assets::page_script());
}

}  // namespace trireme::report
