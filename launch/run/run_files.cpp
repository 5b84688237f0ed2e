// SPDX-License-Identifier: Apache-2.0
#include "launch/run/run_files.h"

#include <sys/stat.h>

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

}  // namespace trireme::runs
