// SPDX-License-Identifier: Apache-2.0
// The directory of one study, which one process runs at a time, and the reports in it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/file.h"

namespace trireme::studies {

// The settings of a study by name, some a whole config: --resume refuses a directory of others.
using Identity = std::vector<std::pair<std::string, std::string>>;

class StudyDirectory {
 public:
  // Creates DIRECTORY/runs, locks the directory for the object's lifetime, and writes study.json if
  // there is none. Raises ExitCode::config if another process holds the lock, if the directory
  // holds a study and `resume` is false, or one of another `identity`, naming the difference; keys
  // that a config there lacks count as their defaults.
  StudyDirectory(const std::string& directory, const Identity& identity, bool resume);

 private:
  FileDescriptor lock_;
};

// The settings of a study as a JSON object, and for a page.
[[nodiscard]] nlohmann::ordered_json settings_json(const Identity& identity);
[[nodiscard]] std::string settings_html(const Identity& identity);

// Writes DIRECTORY/NAME for each pair of a name and its text.
void write_reports(const std::string& directory,
                   const std::vector<std::pair<std::string, std::string>>& files);
// With one value per line.
[[nodiscard]] std::string json_file(const nlohmann::ordered_json& report);

}  // namespace trireme::studies
