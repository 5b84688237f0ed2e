// SPDX-License-Identifier: Apache-2.0
#include "launch/run/run_places.h"

#include <glob.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

namespace trireme::runs {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_entries = 20000;
constexpr int most_levels = 5;  // a study's run is STUDY/runs/VARIANT/seed-1/run

bool is_run(const fs::path& path) {
  std::error_code unknown;
  if (fs::exists(path / "metrics.jsonl", unknown) || fs::exists(path / "config.yaml", unknown))
    return true;
  // A campaign also has an owner.
  return fs::exists(path / "owner.json", unknown) && !fs::exists(path / "campaign.json", unknown);
}

// run_2 before run_10.
bool by_number(const std::string& one, const std::string& other) {
  const auto digit = [](char letter) { return letter >= '0' && letter <= '9'; };
  std::size_t i = 0, j = 0;
  while (i < one.size() && j < other.size()) {
    if (!digit(one[i]) || !digit(other[j])) {
      if (one[i] != other[j]) return one[i] < other[j];
      ++i, ++j;
      continue;
    }
    unsigned long long mine = 0, theirs = 0;
    const auto end = std::from_chars(one.data() + i, one.data() + one.size(), mine).ptr;
    const auto other_end =
        std::from_chars(other.data() + j, other.data() + other.size(), theirs).ptr;
    if (mine != theirs) return mine < theirs;
    i = static_cast<std::size_t>(end - one.data());
    j = static_cast<std::size_t>(other_end - other.data());
  }
  return std::pair(one.size() - i, one) < std::pair(other.size() - j, other);
}

// Finds all runs below a directory, but none inside a run.
class Search {
 public:
  void look_in(const fs::path& directory, int levels) {
    std::error_code error;
    for (fs::directory_iterator entry(directory, error);
         !error && entry != fs::directory_iterator() && ++entries_ < most_entries;
         entry.increment(error)) {
      std::error_code unknown;
      if (!entry->is_directory(unknown)) continue;
      if (is_run(entry->path()))
        runs_.push_back(entry->path().string());
      else if (levels > 1)
        look_in(entry->path(), levels - 1);
    }
  }
  std::vector<std::string> sorted() {
    std::ranges::sort(runs_, by_number);
    return std::move(runs_);
  }

 private:
  std::vector<std::string> runs_;
  std::size_t entries_ = 0;
};

std::vector<std::string> runs_below(const fs::path& directory, int levels) {
  Search search;
  search.look_in(directory, levels);
  return search.sorted();
}

std::vector<std::string> matches_of(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> paths;
  if (::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0)
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  std::erase_if(paths, [](const std::string& path) {
    std::error_code unknown;
    return !fs::is_directory(path, unknown);
  });
  std::ranges::sort(paths, by_number);
  return paths;
}

std::vector<std::string> parts_of(const std::string& path) {
  std::error_code unknown;
  const fs::path whole = fs::weakly_canonical(path, unknown);
  std::vector<std::string> parts;
  for (const fs::path& part : unknown ? fs::path(path) : whole)
    parts.push_back(part.string());
  return parts;
}

}  // namespace

std::vector<std::string> runs_at(std::string place) {
  while (place.size() > 1 && place.back() == '/')
    place.pop_back();
  std::error_code unknown;
  if (is_run(place)) return {place};
  std::vector<std::string> runs;
  if (!fs::exists(place, unknown) && place.find_first_of("*?[") != std::string::npos) {
    for (const std::string& match : matches_of(place)) {
      const auto below = is_run(match) ? std::vector{match} : runs_below(match, most_levels);
      runs.insert(runs.end(), below.begin(), below.end());
    }
    return runs;
  }
  runs = runs_below(place, most_levels);
  return runs.empty() ? std::vector{place} : runs;
}

std::vector<std::string> distinguishing_names(std::span<const std::string> runs) {
  std::vector<std::vector<std::string>> paths;
  for (const std::string& run : runs)
    paths.push_back(parts_of(run));
  const auto shared = [&](auto&& at) {
    std::size_t count = 0;
    while (std::ranges::all_of(paths, [&](const auto& path) {
      return count + 1 < path.size() && at(path, count) == at(paths.front(), count);
    }))
      ++count;
    return count;
  };
  const bool several =
      std::ranges::any_of(paths, [&](const auto& path) { return path != paths.front(); });
  const std::size_t first =
      several ? shared([](const auto& path, std::size_t i) { return path[i]; }) : 0;
  const std::size_t last =
      several ? shared([](const auto& path, std::size_t i) { return path[path.size() - 1 - i]; })
              : 0;
  std::vector<std::string> names;
  for (const auto& path : paths) {
    fs::path name;
    for (std::size_t i = first; several && i + last < path.size(); ++i)
      name /= path[i];
    // For a single run, and for a run inside another.
    names.push_back(name.empty() ? path.back() : name.string());
  }
  return names;
}

}  // namespace trireme::runs
