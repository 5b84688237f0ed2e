// SPDX-License-Identifier: Apache-2.0
// A study's figures for a spreadsheet, a script and a reader. Pure functions of the rows.
#pragma once

#include <span>
#include <string>

#include "launch/scale/split.h"
#include "launch/scale/study.h"

namespace trireme::scale {

// One line per row; seconds are per step, empty cells are not known.
[[nodiscard]] std::string csv_report(const Study& study, std::span<const Row> rows);
// The same with every run; scripts/plot_scaling.py reads it.
[[nodiscard]] std::string json_report(const Study& study, std::span<const Row> rows);
// One file without anything from elsewhere: charts as SVG and a table; follows the reader's light
// or dark scheme, and prints.
[[nodiscard]] std::string html_report(const Study& study, std::span<const Row> rows);
// A table for the terminal.
[[nodiscard]] std::string text_report(const Study& study, std::span<const Row> rows);

}  // namespace trireme::scale
