// SPDX-License-Identifier: Apache-2.0
#include "data/fields/file_list.h"

#include <glob.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <unordered_set>

#include "runtime/base/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

bool has_ending(const fs::path& path) {
  constexpr std::array<std::string_view, 4> endings{".h5", ".hdf5", ".he5", ".nc"};
  return std::ranges::find(endings, path.extension().string()) != endings.end();
}

// Its samples would be missing silently.
[[noreturn]] void refuse_no_file(const fs::directory_entry& entry) {
  std::error_code broken;
  fail(ExitCode::data,
       "data.files: {}: is named as an HDF5 file and is {}; remove it, or name the files by a "
       "pattern",
       entry.path().string(),
       entry.exists(broken) ? "no file but a pipe, a socket or a device"
                            : "a link that leads nowhere");
}

std::vector<std::string> files_below(const std::string& directory) {
  std::vector<std::string> files;
  std::error_code error;
  fs::recursive_directory_iterator at(directory, error);
  for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    std::error_code broken;  // a broken link
    if (!has_ending(at->path()) || at->is_directory(broken)) continue;
    if (!at->is_regular_file(broken)) refuse_no_file(*at);
    files.push_back(at->path().string());
  }
  if (error) fail(ExitCode::data, "data.files: {}: {}", directory, error.message());
  std::ranges::sort(files);
  return files;
}

}  // namespace

std::vector<std::string> files_like(std::string_view key, const std::string& pattern) {
  glob_t found{};
  const int status = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
  std::vector<std::string> files;
  if (status == 0) files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (status != 0 && status != GLOB_NOMATCH)
    fail(ExitCode::data, "{}: {}: a directory of this pattern cannot be read", key, pattern);
  std::ranges::sort(files);
  return files;
}

std::vector<std::string> expand_files(const std::vector<std::string>& names) {
  std::vector<std::string> files;
  std::unordered_set<std::string> known;
  for (const std::string& name : names) {
    std::error_code ignored;
    std::vector<std::string> some;
    if (fs::is_directory(name, ignored)) {
      some = files_below(name);
    } else if (fs::exists(name, ignored)) {
      some = {name};
    } else if (name.find_first_of("*?[") != std::string::npos) {
      some = files_like("data.files", name);
    } else {
      fail(ExitCode::data, "data.files: {}: there is no such file or directory", name);
    }
    if (some.empty())
      fail(ExitCode::data, "data.files: {}: no HDF5 files (*.h5, *.hdf5, *.he5, *.nc) there", name);
    for (std::string& file : some) {
      if (known.insert(file).second) files.push_back(std::move(file));
    }
  }
  return files;
}

}  // namespace trireme
