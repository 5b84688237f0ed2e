// SPDX-License-Identifier: Apache-2.0
// A table of a report, written for a terminal, a page, a spreadsheet or a paper.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme::report {

struct Column {
  enum class Kind : std::uint8_t {
    number,     // at the right
    text,       // at the left
    long_text,  // may take several lines
    name,       // of its row
    code,       // a command
    html        // long_text that is HTML already
  };
  std::string title;
  Kind kind = Kind::number;
  // For table_of(): JSON pointers of the cell's values in a row, separated by spaces; the values
  // that are there are joined by `joint`. "/runs/#" is the number of elements.
  std::string path{};
  std::string format = "{}";  // of a number, or for a boolean the text of true
  double factor = 1;          // for numbers
  std::string joint = " ";
};
[[nodiscard]] inline Column number(std::string title, std::string path, std::string format = "{}",
                                   double factor = 1, std::string joint = " ") {
  return {std::move(title), Column::Kind::number, std::move(path), std::move(format),
          factor,           std::move(joint)};
}
[[nodiscard]] inline Column words(std::string title, std::string path, std::string format = "{}",
                                  double factor = 1, std::string joint = " ") {
  return {std::move(title), Column::Kind::text, std::move(path), std::move(format),
          factor,           std::move(joint)};
}

// For CSV, by words: a key of the row, or TITLE=POINTER without its first slash.
[[nodiscard]] std::vector<Column> keys_as_columns(const std::string& words);

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // One text for each column; missing ones at the end are empty.
  void add(std::vector<std::string> cells);

  // In columns as wide as their longest cell.
  [[nodiscard]] std::string text() const;
  // Scrolls by itself on a narrow screen; `name` is for screen readers.
  [[nodiscard]] std::string html(std::string_view name) const;
  // The same, closed until the reader opens it; empty without rows.
  [[nodiscard]] std::string folded_html(std::string_view name) const;
  [[nodiscard]] std::string csv() const;
  // A tabular for booktabs; "--" for an empty cell.
  [[nodiscard]] std::string latex() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// One row for each element of the array `rows`. Writes [low, high] for two numbers, and words
// separated by spaces for several texts; NaN and null are missing.
[[nodiscard]] Table table_of(const nlohmann::ordered_json& rows, std::vector<Column> columns);

}  // namespace trireme::report
