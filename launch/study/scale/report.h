// SPDX-License-Identifier: Apache-2.0
// The reports of a scaling study: text, CSV, JSON, HTML and LaTeX. Pure functions of the rows.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "launch/study/scale/split.h"
#include "launch/study/scale/study.h"

namespace trireme::scale {

// "token" for "tokens".
[[nodiscard]] std::string one_item(const ModelTraits& traits);

// The hosts and times of a study's runs.
struct StudyPlace {
  std::vector<std::string> hosts{}, cpus{};  // each once
  int cores = 0;                             // minimum over the hosts
  std::string device{};
  std::string first{}, last{};  // starts of the first and the last run, UTC; empty: no run
};
[[nodiscard]] StudyPlace place_of(std::span<const Row> rows);
// "node1, node2 (AMD EPYC, 64 cores each), cpu, by mpirun, 2026-11-22T11:00:00Z to ...".
[[nodiscard]] std::string describe_place(const Study& study, std::span<const Row> rows);

inline constexpr std::string_view shared_cores_note =
    "more ranks than cores on a host: they share cores, so this is not the speed of one core per "
    "rank";

// Explains the brackets after figures; empty with one run per point.
[[nodiscard]] std::string_view interval_note(const Study& study);

// For each mode the efficiency at the most ranks, and the largest loss; empty if only the base has
// an efficiency. Says why one is unsure: one run, or runs of less than a second.
[[nodiscard]] std::vector<std::string> bottlenecks_on(const Study& study,
                                                      std::span<const Row> rows);
// The point of `mode` with most ranks, the fastest of several; null if only the base has an
// efficiency.
[[nodiscard]] const Row* largest_of(std::span<const Row> rows, Mode mode);

// Reasons to doubt figures: oversubscribed cores, efficiencies above 100 %.
[[nodiscard]] std::vector<std::string> remarks_on(std::span<const Row> rows);

// The points as JSON; scripts/plot_scaling.py and the tables below read them.
[[nodiscard]] nlohmann::ordered_json describe(std::span<const Row> rows, const ModelTraits& traits);
// One run of a point.
[[nodiscard]] nlohmann::ordered_json describe_run(const std::optional<RunResult>& run,
                                                  const Point& point);
// The study with its points.
[[nodiscard]] nlohmann::ordered_json json_report(const Study& study, std::span<const Row> rows);
// One line per row; seconds are per step, unknown cells are empty.
[[nodiscard]] std::string csv_report(const Study& study, std::span<const Row> rows);
// A page of launch/observe/report/ with charts and tables.
[[nodiscard]] std::string html_report(const Study& study, std::span<const Row> rows);
// A table for a paper (booktabs), with the intervals.
[[nodiscard]] std::string latex_report(const Study& study, std::span<const Row> rows);
// A table for the terminal.
[[nodiscard]] std::string text_report(const Study& study, std::span<const Row> rows);

}  // namespace trireme::scale
