// SPDX-License-Identifier: Apache-2.0
// STUDY.yaml as written. study.h interprets it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launch/study/ablate/study.h"

namespace trireme::ablate {

// A range to draw values from.
struct Range {
  std::string key, place;
  double low = 0, high = 0;
  bool logarithmic = false, whole = false;
};

struct StudyFile {
  Study study{};  // what needs no interpretation; `overrides` is the study's `set`
  std::string base;
  std::int64_t ranks = 1;
  std::string metric;                                                  // "": depends on the base
  std::vector<std::pair<std::string, std::vector<std::string>>> grid;  // variants.grid: key, values
  std::vector<Variant> list;                                           // variants.list
  struct Random {
    std::int64_t draws = 0;
    std::uint64_t seed = 1;
    std::vector<Range> ranges;
    std::string place;
  };
  std::optional<Random> random;  // variants.random

  // The given keys, and where.
  std::vector<std::pair<std::string, std::string>> places;
  [[nodiscard]] std::string place_of(const std::string& key) const;
};

// Raises ExitCode::config with "file:line: key: ..." for an invalid study: unknown keys, values of
// a wrong type or out of bounds, no variants, no seeds.
[[nodiscard]] StudyFile read_study_file(const std::string& path);

// The base; then every combination of the grid, the list, and the draws, which are a function of
// their seed. Their configs are not loaded yet. Raises ExitCode::config where there are more than
// 1,000, or two have one name.
[[nodiscard]] std::vector<Variant> variants_of(const StudyFile& file);

}  // namespace trireme::ablate
