// SPDX-License-Identifier: Apache-2.0
// STUDY.yaml as written, with the position of each entry for messages. study.h interprets it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trireme::ablate {

struct Setting {
  std::string key, value;  // the value as --set takes it
  std::string place;       // "study.yaml:7: variants.grid.train.clip_norm"
};

// A range to draw values from.
struct Range {
  std::string key, place;
  double low = 0, high = 0;
  bool logarithmic = false, whole = false;
};

struct StudyFile {
  std::string path, base;
  std::vector<Setting> set;
  std::vector<std::uint64_t> seeds;
  std::int64_t ranks = 1;

  // variants.grid: the values by key.
  std::vector<std::pair<std::string, std::vector<Setting>>> grid;
  struct Named {
    std::string name, place;
    std::vector<Setting> settings;
  };
  std::vector<Named> list;  // variants.list
  struct Random {
    std::int64_t draws = 0;
    std::uint64_t seed = 1;
    std::vector<Range> ranges;
    std::string place;
  };
  std::optional<Random> random;  // variants.random

  std::int64_t fork_step = 0, share_from = 10;
  std::vector<std::int64_t> halving_at;
  double halving_keep = 0.5;
  std::string metric;  // "" = by the base
  std::int64_t last_losses = 20;
  double price_per_rank_hour = 0;
  // The given keys among those above.
  std::vector<std::pair<std::string, std::string>> places;
  [[nodiscard]] std::string place_of(const std::string& key) const;
};

// Raises ExitCode::config with "file:line: key: ..." for an invalid study: unknown keys, values of
// a wrong type or out of bounds, no variants, no seeds.
[[nodiscard]] StudyFile read_study_file(const std::string& path);

}  // namespace trireme::ablate
