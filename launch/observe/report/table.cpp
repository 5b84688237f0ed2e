// SPDX-License-Identifier: Apache-2.0
#include "launch/observe/report/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "launch/observe/report/html.h"
#include "launch/observe/top/cells.h"

namespace trireme::report {
namespace {

using nlohmann::ordered_json;
using Kind = Column::Kind;

std::string_view class_of(const Column& column) {
  if (column.kind == Kind::number) return "";
  return column.kind == Kind::text || column.kind == Kind::name ? " class=\"text\""
                                                                : " class=\"text long\"";
}

std::string html_cell(const Column& column, const std::string& cell) {
  const std::string text = column.kind == Kind::html ? cell : escaped(cell);
  if (column.kind == Kind::name)
    return fmt::format("<th scope=\"row\" class=\"text name\">{}</th>", text);
  if (column.kind == Kind::code)
    return fmt::format("<td class=\"text long\"><code>{}</code></td>", text);
  return fmt::format("<td{}>{}</td>", class_of(column), text);
}

// In quotes if it contains a separator.
std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char letter : text)
    quoted += letter == '"' ? "\"\"" : std::string(1, letter);
  return quoted + "\"";
}

std::string latex_cell(const std::string& text) {
  std::string safe;
  for (const char letter : text) {
    if (std::string_view("&%$#_{}").find(letter) != std::string_view::npos) safe += '\\';
    if (letter == '\\')
      safe += "\\textbackslash{}";
    else if (letter == '~' || letter == '^')
      safe += fmt::format("\\{}{{}}", letter);
    else
      safe += letter;
  }
  return safe;
}

std::string value_text(const ordered_json& value, const Column& column) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean() && column.format != "{}") return value.get<bool>() ? column.format : "";
  if (value.is_number_float() || (value.is_number() && column.format != "{}")) {
    const double number = column.factor * value.get<double>();
    return std::isfinite(number) ? fmt::format(fmt::runtime(column.format), number) : "";
  }
  if (!value.is_array()) return value.is_null() ? "" : value.dump();
  std::vector<std::string> parts;
  for (const ordered_json& part : value)
    parts.push_back(value_text(part, column));
  if (!value.empty() && value.front().is_number())
    return fmt::format("[{}]", fmt::join(parts, ", "));
  return fmt::format("{}", fmt::join(parts, " "));
}

std::string cell_text(const ordered_json& row, const Column& column) {
  std::vector<std::string> parts;
  std::istringstream paths(column.path);
  for (std::string path; paths >> path;) {
    const bool count = path.ends_with("/#");
    if (count) path.resize(path.size() - 2);
    const ordered_json::json_pointer pointer(path);
    if (!row.contains(pointer)) continue;
    std::string text =
        count ? fmt::format("{}", row.at(pointer).size()) : value_text(row.at(pointer), column);
    if (!text.empty()) parts.push_back(std::move(text));
  }
  return fmt::format("{}", fmt::join(parts, column.joint));
}

}  // namespace

void Table::add(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  constexpr std::size_t widest = 60;
  std::vector<std::string> titles;
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    titles.push_back(columns_[i].title);
    widths.push_back(top::columns_of(titles.back()));
    for (const auto& row : rows_)
      widths[i] = std::max(widths[i], std::min(top::columns_of(row[i]), widest));
  }
  std::string text;
  const auto write = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::size_t own = top::columns_of(cells[i]);
      const std::string room(widths[i] - std::min(widths[i], own), ' ');
      line += (i > 0 ? "  " : "") +
              (columns_[i].kind == Kind::number ? room + cells[i] : cells[i] + room);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  };
  write(titles);
  std::ranges::for_each(rows_, write);
  return text;
}

std::string Table::html(std::string_view name) const {
  std::string text = fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table>\n<tr>",
      escaped(name));
  for (const Column& column : columns_)
    text += fmt::format("<th{}>{}</th>", column.kind == Kind::number ? "" : " class=\"text\"",
                        escaped(column.title));
  for (const auto& row : rows_) {
    text += "</tr>\n<tr>";
    for (std::size_t i = 0; i < row.size(); ++i)
      text += html_cell(columns_[i], row[i]);
  }
  return text + "</tr>\n</table></div>\n";
}

std::string Table::folded_html(std::string_view name) const {
  return rows_.empty() ? "" : folded(name, html(name));
}

std::string Table::csv() const {
  std::string text;
  for (std::size_t i = 0; i < columns_.size(); ++i)
    text += (i > 0 ? "," : "") + csv_cell(columns_[i].title);
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < row.size(); ++i)
      text += (i > 0 ? "," : "\n") + csv_cell(row[i]);
  return text + "\n";
}

std::string Table::latex() const {
  std::string form, text;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    form += columns_[i].kind == Kind::number ? "r" : "l";
    text += (i > 0 ? " & " : "") + latex_cell(columns_[i].title);
  }
  text = fmt::format("\\begin{{tabular}}{{{}}}\n\\toprule\n{} \\\\\n\\midrule\n", form, text);
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i)
      text += (i > 0 ? " & " : "") + (row[i].empty() ? "--" : latex_cell(row[i]));
    text += " \\\\\n";
  }
  return text + "\\bottomrule\n\\end{tabular}\n";
}

std::vector<Column> keys_as_columns(const std::string& words) {
  std::vector<Column> columns;
  std::istringstream text(words);
  for (std::string word; text >> word;)
    columns.push_back(
        number(word.substr(0, word.find('=')), "/" + word.substr(word.find('=') + 1)));
  return columns;
}

Table table_of(const ordered_json& rows, std::vector<Column> columns) {
  Table table(columns);
  for (const ordered_json& row : rows) {
    std::vector<std::string> cells;
    for (const Column& column : columns)
      cells.push_back(cell_text(row, column));
    table.add(std::move(cells));
  }
  return table;
}

}  // namespace trireme::report
