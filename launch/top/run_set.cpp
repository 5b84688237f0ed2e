// SPDX-License-Identifier: Apache-2.0
#include "launch/top/run_set.h"

#include <glob.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>

namespace trireme::top {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_runs = 1000, most_entries = 20000;

bool is_run(const fs::path& path) {
  std::error_code unknown;
  return fs::exists(path / "metrics.jsonl", unknown) || fs::exists(path / "config.yaml", unknown) ||
         fs::exists(path / "owner.json", unknown);
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

// Runs in a directory, or else those in the directories in it.
std::vector<std::string> runs_below(const fs::path& directory, int levels) {
  std::vector<std::string> runs;
  std::vector<fs::path> others;
  std::error_code error;
  std::size_t entries = 0;
  for (fs::directory_iterator entry(directory, error);
       !error && entry != fs::directory_iterator() && ++entries < most_entries;
       entry.increment(error)) {
    std::error_code unknown;
    if (!entry->is_directory(unknown)) continue;
    if (is_run(entry->path()))
      runs.push_back(entry->path().string());
    else
      others.push_back(entry->path());
  }
  for (const fs::path& other : levels > 1 ? others : std::vector<fs::path>()) {
    const auto below = runs_below(other, levels - 1);
    runs.insert(runs.end(), below.begin(), below.end());
  }
  std::ranges::sort(runs, by_number);
  return runs;
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

std::vector<std::string> runs_of(const std::string& place) {
  std::error_code unknown;
  if (is_run(place)) return {place};
  if (!fs::exists(place, unknown) && place.find_first_of("*?[") != std::string::npos) {
    std::vector<std::string> runs;
    for (const std::string& match : matches_of(place)) {
      const auto below = is_run(match) ? std::vector{match} : runs_below(match, 1);
      runs.insert(runs.end(), below.begin(), below.end());
    }
    return runs;
  }
  const auto below = runs_below(place, 2);
  return below.empty() ? std::vector{place} : below;
}

// What tells a run from the others below its place.
std::string name_below(const std::string& place, const std::string& directory) {
  if (directory.size() > place.size() + 1 && directory.starts_with(place))
    return directory.substr(place.size() + (place == "/" ? 0 : 1));
  return fs::path(directory).filename().string();
}

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/')
    path.pop_back();
  return path;
}

}  // namespace

RunSet::RunSet(std::vector<std::string> places) : places_(std::move(places)) {
  for (std::string& place : places_)
    place = without_slashes(std::move(place));
}

void RunSet::refresh() {
  std::vector<std::unique_ptr<RunFollower>> runs;
  std::set<std::string> seen;
  left_out_ = 0;
  for (const std::string& place : places_) {
    for (const std::string& directory : runs_of(place)) {
      if (!seen.insert(directory).second) continue;
      if (runs.size() >= most_runs) {
        ++left_out_;
        continue;
      }
      const auto known = std::ranges::find_if(runs_, [&](const auto& run) {
        return run != nullptr && run->view().directory == directory;
      });
      runs.push_back(known != runs_.end()
                         ? std::move(*known)
                         : std::make_unique<RunFollower>(directory, name_below(place, directory)));
    }
  }
  runs_ = std::move(runs);
  views_.clear();
  for (const auto& run : runs_) {
    run->refresh();
    views_.push_back(&run->view());
  }
}

}  // namespace trireme::top
