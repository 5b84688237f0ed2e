// SPDX-License-Identifier: Apache-2.0
// Findings of `trireme doctor` by rank, and their table.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::doctor {

enum class Severity : std::uint8_t {
  fine,
  note,    // works, but slower or less safely than possible
  problem  // a run will fail
};

struct Finding {
  Severity severity = Severity::fine;
  std::string subject;  // "cores"
  std::string text;     // the finding
  std::string fix;      // the remedy; empty if nothing is wrong
  friend bool operator==(const Finding&, const Finding&) = default;
};

class Findings {
 public:
  void fine(std::string subject, std::string text) {
    add({Severity::fine, std::move(subject), std::move(text), {}});
  }
  void note(std::string subject, std::string text, std::string fix) {
    add({Severity::note, std::move(subject), std::move(text), std::move(fix)});
  }
  void problem(std::string subject, std::string text, std::string fix) {
    add({Severity::problem, std::move(subject), std::move(text), std::move(fix)});
  }
  void add(Finding finding) { all_.push_back(std::move(finding)); }
  [[nodiscard]] const std::vector<Finding>& all() const { return all_; }

  // To send to another rank.
  [[nodiscard]] std::string serialized() const;
  [[nodiscard]] static Findings parse(std::string_view text);

 private:
  std::vector<Finding> all_;
};

// One row per finding, merging equal ones of several ranks, in order. The last line counts notes
// and problems.
[[nodiscard]] std::string table(std::span<const Findings> by_rank);
// The same for scripts: {"problems", "notes", "findings": [{"severity", "subject", ...}]}.
[[nodiscard]] std::string json_table(std::span<const Findings> by_rank);
// Over all ranks.
[[nodiscard]] int problems(std::span<const Findings> by_rank);

[[nodiscard]] constexpr double in_gib(std::uint64_t bytes) {
  return static_cast<double>(bytes) / (1ULL << 30U);
}

}  // namespace trireme::doctor
