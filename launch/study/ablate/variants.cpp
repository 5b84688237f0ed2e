// SPDX-License-Identifier: Apache-2.0
#include "launch/study/ablate/study_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "runtime/base/error.h"

namespace trireme::ablate {
namespace {

constexpr std::size_t most_variants = 1000;

// "optimizer.learning_rate" -> "learning_rate", "lr_schedule.name" -> "lr_schedule".
std::string short_name(const std::string& key) {
  const std::size_t dot = key.find('.');
  if (dot == std::string::npos) return key;
  const std::string last = key.substr(dot + 1);
  return last == "name" ? key.substr(0, dot) : last;
}

// Short names of all keys of the study; whole keys if short names would be equal.
std::map<std::string, std::string> labels_of(const StudyFile& file) {
  std::set<std::string> keys;
  for (const auto& [key, values] : file.grid)
    keys.insert(key);
  if (file.random)
    for (const Range& range : file.random->ranges)
      keys.insert(range.key);
  std::map<std::string, int> uses;
  for (const std::string& key : keys)
    ++uses[short_name(key)];
  std::map<std::string, std::string> labels;
  for (const std::string& key : keys)
    labels[key] = uses[short_name(key)] == 1 ? short_name(key) : key;
  return labels;
}

class Builder {
 public:
  explicit Builder(const StudyFile& file) : file_(file), labels_(labels_of(file)) {
    variants_.push_back({.name = "base", .settings = {}, .place = file.place_of("base")});
  }

  std::vector<Variant> build() {
    if (!file_.grid.empty()) {
      std::size_t combinations = 1;
      for (const auto& [key, values] : file_.grid) {
        combinations *= values.size();
        if (combinations > most_variants) too_many("grid");
      }
      Variant variant{.name = "", .settings = {}, .place = file_.place_of("variants")};
      add_grid(0, variant);
    }
    for (const Variant& named : file_.list)
      add(named);
    if (file_.random) add_draws(*file_.random);
    return std::move(variants_);
  }

 private:
  [[noreturn]] void too_many(std::string_view part) const {
    fail(ExitCode::config, "{}: {} makes more than {} variants; remove values",
         file_.place_of("variants"), part, most_variants);
  }

  void extend(Variant& variant, const std::string& key, const std::string& value) const {
    variant.name += fmt::format("{}{}={}", variant.name.empty() ? "" : ",", labels_.at(key), value);
    variant.settings.push_back(fmt::format("{}={}", key, value));
  }

  void add(Variant variant) {
    if (variants_.size() > most_variants) too_many("it");
    if (std::ranges::find(variants_, variant.name, &Variant::name) != variants_.end())
      fail(ExitCode::config, "{}: two variants are named '{}'; rename one", variant.place,
           variant.name);
    variants_.push_back(std::move(variant));
  }

  // The last key changes fastest.
  void add_grid(std::size_t depth, const Variant& so_far) {
    if (depth == file_.grid.size()) {
      add(so_far);
      return;
    }
    const auto& [key, values] = file_.grid[depth];
    for (const std::string& value : values) {
      Variant variant = so_far;
      extend(variant, key, value);
      add_grid(depth + 1, variant);
    }
  }

  void add_draws(const StudyFile::Random& random) {
    std::mt19937_64 bits(random.seed);
    for (std::int64_t draw = 0; draw < random.draws; ++draw) {
      Variant variant{.name = "", .settings = {}, .place = random.place};
      for (const Range& range : random.ranges)
        extend(variant, range.key, drawn(range, bits));
      // Whole numbers of a small range may repeat.
      if (std::ranges::find(variants_, variant.name, &Variant::name) == variants_.end())
        add(std::move(variant));
    }
  }

  // Six digits. <random>'s distributions differ between libraries.
  static std::string drawn(const Range& range, std::mt19937_64& bits) {
    const double share = static_cast<double>(bits() >> 11) * 0x1p-53;  // below 1
    if (range.whole) {
      const double low = std::ceil(range.low), count = std::floor(range.high) - low + 1;
      const double logarithmic =
          range.logarithmic ? range.low * std::pow((range.high + 1) / range.low, share) : 0;
      const double value =
          range.logarithmic ? std::floor(logarithmic) : low + std::floor(share * count);
      return fmt::format("{:.0f}", std::clamp(value, low, low + count - 1));
    }
    const double value = range.logarithmic ? range.low * std::pow(range.high / range.low, share)
                                           : range.low + share * (range.high - range.low);
    return fmt::format("{:.6g}", value);
  }

  const StudyFile& file_;
  std::map<std::string, std::string> labels_;
  std::vector<Variant> variants_;
};

}  // namespace

std::vector<Variant> variants_of(const StudyFile& file) {
  return Builder(file).build();
}

}  // namespace trireme::ablate
