// SPDX-License-Identifier: Apache-2.0
#include "launch/study/study_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "launch/observe/report/html.h"
#include "models/config.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"

namespace trireme::studies {
namespace {

using nlohmann::ordered_json;

namespace fs = std::filesystem;

// The first line that differs.
std::string difference(const std::string& before, const std::string& now) {
  std::istringstream old_lines(before), new_lines(now);
  std::string was, is;
  for (;;) {
    const bool more_old = static_cast<bool>(std::getline(old_lines, was));
    const bool more_new = static_cast<bool>(std::getline(new_lines, is));
    if (!more_old || !more_new || was != is)
      return fmt::format("'{}' there, '{}' now", more_old ? was : "", more_new ? is : "");
  }
}

// A whole config of an earlier version lacks keys that are new since; they had their defaults.
bool same_setting(const std::string& before, const std::string& now) {
  if (before == now) return true;
  if (now.find('\n') == std::string::npos) return false;
  try {
    return to_yaml(parse_config(before, "study.json", {})) == now;
  } catch (const Error&) {
    return false;
  }
}

void make(const std::string& directory) {
  std::error_code error;
  fs::create_directories(directory + "/runs", error);
  if (error) {
    fail(ExitCode::config, "--out: {} cannot be made: {}; choose another directory", directory,
         error.message());
  }
}

// The kernel releases it at the end of the process; jobs do not inherit it.
FileDescriptor lock(const std::string& directory) {
  FileDescriptor file =
      OutputDirectory(directory, ExitCode::config).open("study.lock", O_RDWR | O_CREAT);
  if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) return file;
  if (errno == EWOULDBLOCK) {
    fail(ExitCode::config,
         "--out: {}: another process is running the study there; wait for its end, or choose "
         "another directory",
         directory);
  }
  fail(ExitCode::config,
       "--out: {}: cannot be locked: {}; choose a directory on a file system that supports locks",
       directory, std::strerror(errno));
}

}  // namespace

StudyDirectory::StudyDirectory(const std::string& directory, const Identity& identity,
                               bool resume) {
  using json = nlohmann::json;
  make(directory);
  lock_ = lock(directory);
  const std::string path = directory + "/study.json";
  if (!fs::exists(path)) {
    json text = json::object();
    for (const auto& [key, value] : identity)
      text[key] = value;
    write_file(path, text.dump(2) + "\n", ExitCode::config);
    return;
  }
  if (!resume) {
    fail(ExitCode::config,
         "--out: {} holds a study already; continue it with --resume, or choose "
         "another directory",
         directory);
  }
  if (!fs::is_regular_file(path))
    fail(ExitCode::config, "--resume: {} is not a file; choose another --out", path);
  const json there =
      json_or_discarded(read_whole_file(path, std::uint64_t{1} << 26, ExitCode::config));
  for (const auto& [key, value] : identity) {
    const auto found = there.is_object() ? there.find(key) : there.end();
    const bool text = found != there.end() && found->is_string();
    const std::string before = text ? found->get<std::string>() : "";
    if (same_setting(before, value)) continue;
    fail(ExitCode::config, "--resume: {} holds another study: {}: {}; choose another --out",
         directory, key, difference(before, value));
  }
}

ordered_json settings_json(const Identity& identity) {
  ordered_json settings = ordered_json::object();
  for (const auto& [key, value] : identity)
    settings[key] = value;
  return settings;
}

std::string settings_html(const Identity& identity) {
  std::string text;
  for (const auto& [key, value] : identity)
    text += value.find('\n') == std::string::npos
                ? fmt::format("<p><code>{} {}</code></p>\n", report::escaped(key),
                              report::escaped(value))
                : report::folded_text(key, value);
  return text;
}

void write_reports(const std::string& directory,
                   const std::vector<std::pair<std::string, std::string>>& files) {
  for (const auto& [name, text] : files)
    write_file(directory + "/" + name, text, ExitCode::internal);
}

std::string json_file(const ordered_json& report) {
  return report.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace trireme::studies
