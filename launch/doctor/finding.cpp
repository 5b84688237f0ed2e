// SPDX-License-Identifier: Apache-2.0
#include "launch/doctor/finding.h"
#include "runtime/base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace trireme::doctor {
namespace {

using json = nlohmann::json;

// "all ranks", "rank 3", "ranks 0-3, 6".
std::string name_ranks(const std::vector<std::size_t>& ranks, std::size_t count) {
  if (ranks.size() == count) return count == 1 ? "" : "all ranks";
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1)
      ++end;
    text += fmt::format("{}{}", i == 0 ? "" : ", ", ranks[i]);
    if (end - i > 1) text += fmt::format("-{}", ranks[end - 1]);
    i = end;
  }
  return text;
}

struct Row {
  Finding finding;
  std::vector<std::size_t> ranks;
};

std::vector<Row> rows_of(std::span<const Findings> by_rank) {
  std::vector<Row> rows;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    for (const Finding& finding : by_rank[rank].all()) {
      const auto same =
          std::ranges::find_if(rows, [&](const Row& row) { return row.finding == finding; });
      if (same == rows.end()) {
        rows.push_back({finding, {rank}});
      } else if (same->ranks.back() != rank) {
        same->ranks.push_back(rank);
      }
    }
  }
  // Findings of one subject are grouped, in the order of their first rank.
  std::vector<std::string> subjects;
  for (const Row& row : rows) {
    if (std::ranges::find(subjects, row.finding.subject) == subjects.end())
      subjects.push_back(row.finding.subject);
  }
  std::ranges::stable_sort(rows, {}, [&](const Row& row) {
    return std::ranges::find(subjects, row.finding.subject) - subjects.begin();
  });
  return rows;
}

std::string_view name_of(Severity severity) {
  constexpr std::string_view names[] = {"ok", "note", "PROBLEM"};
  return names[static_cast<std::size_t>(severity)];
}

int count(std::span<const Row> rows, Severity severity) {
  return static_cast<int>(
      std::ranges::count(rows, severity, [](const Row& row) { return row.finding.severity; }));
}

}  // namespace

std::string Findings::serialized() const {
  json rows = json::array();
  for (const Finding& f : all_)
    rows.push_back({static_cast<int>(f.severity), f.subject, f.text, f.fix});
  return rows.dump(-1, ' ', false, json::error_handler_t::replace);
}

Findings Findings::parse(std::string_view text) {
  Findings findings;
  for (const json& row : parse_json(text))
    findings.add({static_cast<Severity>(row.at(0).get<int>()), row.at(1), row.at(2), row.at(3)});
  return findings;
}

std::string table(std::span<const Findings> by_rank) {
  const std::vector<Row> rows = rows_of(by_rank);
  std::string text;
  for (const Row& row : rows) {
    const Finding& f = row.finding;
    const std::string where = name_ranks(row.ranks, by_rank.size());
    text += fmt::format("{:<8} {:<14} {}{}\n", name_of(f.severity), f.subject, f.text,
                        where.empty() ? "" : fmt::format("  [{}]", where));
    if (!f.fix.empty()) text += fmt::format("{:<23} -> {}\n", "", f.fix);
  }
  const int notes = count(rows, Severity::note), bad = count(rows, Severity::problem);
  return text + fmt::format("{} problem{}, {} note{}\n", bad, bad == 1 ? "" : "s", notes,
                            notes == 1 ? "" : "s");
}

std::string json_table(std::span<const Findings> by_rank) {
  using nlohmann::ordered_json;
  const std::vector<Row> rows = rows_of(by_rank);
  ordered_json findings = ordered_json::array();
  for (const auto& [finding, ranks] : rows)
    findings.push_back({{"severity", name_of(finding.severity)},
                        {"subject", finding.subject},
                        {"text", finding.text},
                        {"fix", finding.fix},
                        {"ranks", ranks}});
  const ordered_json text{{"problems", count(rows, Severity::problem)},
                          {"notes", count(rows, Severity::note)},
                          {"findings", findings}};
  return text.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

int problems(std::span<const Findings> by_rank) {
  return count(rows_of(by_rank), Severity::problem);
}

}  // namespace trireme::doctor
