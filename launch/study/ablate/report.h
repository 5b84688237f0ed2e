// SPDX-License-Identifier: Apache-2.0
// An ablation's figures for a terminal, a spreadsheet, a script and a reader. Pure functions.
#pragma once

#include <span>
#include <string>

#include "launch/observe/report/table.h"
#include "launch/study/ablate/comparison.h"

namespace trireme::ablate {

[[nodiscard]] std::string text_report(const Study& study, const AblationResult& result,
                                      std::span<const Row> rows);
// One line for each cell: its variant's keys, seed, state, metric, amounts, difference to the base
// of its seed, and run directory.
[[nodiscard]] std::string csv_report(const Study& study, const AblationResult& result);
// The study, every row, and every cell with its legs and their exact commands.
[[nodiscard]] std::string json_report(const Study& study, const AblationResult& result,
                                      std::span<const Row> rows);
// A page of launch/observe/report/ with the table, learning curves by steps, items, time and cost,
// and the commands.
[[nodiscard]] std::string html_report(const Study& study, const AblationResult& result,
                                      std::span<const Row> rows);

// The variants with their metrics and differences; a page has more columns than a terminal.
[[nodiscard]] report::Table table_of(const Study& study, std::span<const Row> rows, bool for_page);

// The definitions that the numbers go by, a sentence each, for all reports.
[[nodiscard]] std::vector<std::string> definitions(const Study& study,
                                                   const AblationResult& result);

}  // namespace trireme::ablate
