// SPDX-License-Identifier: Apache-2.0
#include "launch/run/run_files.h"

#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "launch/run/file_tail.h"
#include "runtime/base/json.h"
#include "runtime/checkpoint/directory.h"
#include "runtime/checkpoint/files/names.h"
#include "runtime/telemetry/run_directory.h"

namespace trireme::runs {
namespace {

using FileJson = nlohmann::json;

void take(const FileJson& object, const char* key, std::string& to) {
  const auto found = object.find(key);
  if (found != object.end() && found->is_string()) to = *found;
}

void take(const FileJson& object, const char* key, int& to) {
  const auto found = object.find(key);
  if (found != object.end() && found->is_number_integer()) to = *found;
}

void take(const FileJson& object, const char* key, std::vector<std::string>& to) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) return;
  for (const FileJson& value : *found)
    to.push_back(value.is_string() ? value.get<std::string>() : "?");
}

void follow_log_end(std::string& end, std::string_view line) {
  constexpr std::size_t longest_head = 60;  // time stamp, level, rank
  const std::string_view head = line.substr(0, longest_head);
  for (const std::string_view level : {"[error] ", "[critical] ", "[warning] "}) {
    const std::size_t found = head.find(level);
    if (found == std::string_view::npos) continue;
    end = line.substr(found);
    return;
  }
  if (head.find("[info] ") == std::string_view::npos) return;
  const std::size_t until = line.find(until_mark);
  end = until == std::string_view::npos ? "" : line.substr(until);
}

StoredCheckpoint stored_at(const StepDirectory& found) {
  struct stat manifest {};
  const bool whole =
      ::stat((found.path + "/" + std::string(manifest_name)).c_str(), &manifest) == 0;
  return {.name = std::filesystem::path(found.path).filename().string(),
          .path = found.path,
          .step = found.step,
          .whole = whole,
          .written = whole ? static_cast<double>(manifest.st_mtim.tv_sec) : 0.0};
}

}  // namespace

std::optional<EnvironmentFile> parse_environment(std::string_view text) {
  const FileJson json = json_or_discarded(text);
  if (!json.is_object()) return {};
  EnvironmentFile file;
  take(json, "version", file.version);
  take(json, "revision", file.revision);
  take(json, "start_time", file.started);
  take(json, "ranks", file.ranks);
  take(json, "hosts", file.hosts);
  take(json, "command_line", file.command);
  if (const auto cpu = json.find("cpu"); cpu != json.end() && cpu->is_object()) {
    take(*cpu, "model", file.cpu);
    take(*cpu, "cores_online", file.cores);
  }
  return file;
}

std::vector<StoredCheckpoint> list_stored(const std::string& directory) {
  std::vector<StoredCheckpoint> stored;
  for (const StepDirectory& found : list_checkpoints(RunDirectory::checkpoints_in(directory)))
    stored.push_back(stored_at(found));
  return stored;
}

double stored_bytes(const StoredCheckpoint& checkpoint) {
  double bytes = 0;
  std::error_code ended;
  for (std::filesystem::directory_iterator file(checkpoint.path, ended);
       !ended && file != std::filesystem::directory_iterator(); file.increment(ended)) {
    std::error_code unknown;
    const auto size = file->file_size(unknown);
    if (!unknown) bytes += static_cast<double>(size);
  }
  return bytes;
}

std::optional<StoredCheckpoint> newest_stored(const std::string& directory) try {
  const auto found = list_checkpoints(RunDirectory::checkpoints_in(directory));
  for (auto newest = found.rbegin(); newest != found.rend(); ++newest)
    if (const StoredCheckpoint stored = stored_at(*newest); stored.whole) return stored;
  return {};
} catch (const std::exception&) {
  return {};
}

std::string log_end_of(const std::string& path) {
  std::string end;
  FileTail(path, 16 << 10).poll([] {}, [&](std::string_view line) { follow_log_end(end, line); });
  return end;
}

namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_entries = 20000;
constexpr int most_levels = 5;  // a study's run is STUDY/runs/VARIANT/seed-1/run

bool is_run(const fs::path& path) {
  std::error_code unknown;
  if (fs::exists(path / "metrics.jsonl", unknown) || fs::exists(path / "config.yaml", unknown))
    return true;
  // A campaign has an owner too.
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

// All below a directory, and none below a run.
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
    // Of one run, and where one lies within another.
    names.push_back(name.empty() ? path.back() : name.string());
  }
  return names;
}

}  // namespace trireme::runs
