// SPDX-License-Identifier: Apache-2.0
#include "data/files/file_tree.h"

#include <fmt/ranges.h>
#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <unordered_set>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

using Identity = std::pair<dev_t, ino_t>;

Identity identity_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) system_failed("stat", path, ExitCode::data);
  return {status.st_dev, status.st_ino};
}

class Walk {
 public:
  explicit Walk(const std::string& directory) {
    scan(directory, files_);
    // Links are followed after all real files and folders; they may lead to more links.
    while (!links_to_folders_.empty()) {
      std::vector<std::string> links = std::exchange(links_to_folders_, {});
      std::sort(links.begin(), links.end());
      for (const std::string& link : links) {
        folders_.contains(identity_of(link)) ? note(repeated_, link) : scan(link, linked_);
      }
    }
    add_linked();
    std::sort(files_.begin(), files_.end());
  }

  [[nodiscard]] FileTree take() {
    std::vector<std::string> parts;
    for (const Kind& kind : {hidden_, repeated_, dangling_, special_}) {
      if (kind.count > 0)
        parts.push_back(fmt::format("{} {} ({}{})", kind.count, kind.name, kind.first,
                                    kind.count > 1 ? ", ..." : ""));
    }
    return {std::move(files_), std::move(paths_), fmt::format("{}", fmt::join(parts, "; "))};
  }

 private:
  struct Kind {
    const char* name;
    std::size_t count = 0;
    std::string first{};
  };

  static void note(Kind& kind, const std::string& path) {
    if (kind.count++ == 0 || path < kind.first) kind.first = path;
  }

  void scan(const std::string& top, std::vector<std::string>& files) {
    std::vector<std::string> open{top};
    while (!open.empty()) {
      const std::string directory = std::move(open.back());
      open.pop_back();
      if (!folders_.insert(identity_of(directory)).second) continue;
      paths_.push_back(directory);
      for (const auto& entry : fs::directory_iterator(directory))
        sort_in(entry, files, open);
    }
  }

  void sort_in(const fs::directory_entry& entry, std::vector<std::string>& files,
               std::vector<std::string>& open) {
    const std::string path = entry.path().string();
    if (entry.path().filename().string().starts_with('.')) return note(hidden_, path);
    const bool link = entry.is_symlink();
    std::error_code broken;  // broken or circular link
    const fs::file_type type = fs::status(path, broken).type();
    if (link && (broken || type == fs::file_type::not_found)) return note(dangling_, path);
    if (type == fs::file_type::directory) {
      (link ? links_to_folders_ : open).push_back(path);
    } else if (type == fs::file_type::regular) {
      (link ? linked_ : files).push_back(path);
    } else {
      note(special_, path);
    }
  }

  void add_linked() {
    if (linked_.empty()) return;
    std::set<Identity> seen;
    for (const std::string& file : files_)
      seen.insert(identity_of(file));
    std::sort(linked_.begin(), linked_.end());
    for (const std::string& file : linked_) {
      seen.insert(identity_of(file)).second ? files_.push_back(file) : note(repeated_, file);
    }
  }

  std::set<Identity> folders_;
  std::vector<std::string> paths_;  // of these
  std::vector<std::string> files_;
  std::vector<std::string> linked_;
  std::vector<std::string> links_to_folders_;
  Kind hidden_{"hidden"}, repeated_{"linked twice"}, dangling_{"broken links"},
      special_{"neither files nor folders"};
};

}  // namespace

FileTree walk_files(const std::string& directory) {
  return Walk(directory).take();
}

std::vector<std::string> list_files(const std::string& directory) {
  FileTree tree = walk_files(directory);
  if (!tree.left_out.empty()) log::get("data").warn("{}: left out {}", directory, tree.left_out);
  return std::move(tree.files);
}

namespace {

namespace fs = std::filesystem;

bool has_ending(const fs::path& path) {
  constexpr std::array<std::string_view, 7> endings{".h5",  ".hdf5", ".he5", ".nc",
                                                    ".mat", ".npy",  ".npz"};
  return std::ranges::find(endings, path.extension().string()) != endings.end();
}

// Its samples would be missing silently.
[[noreturn]] void refuse_no_file(const fs::directory_entry& entry) {
  std::error_code broken;
  fail(ExitCode::data,
       "data.files: {}: has the name of an HDF5 file, but is {}; remove it, or name the files by a "
       "pattern",
       entry.path().string(),
       entry.exists(broken) ? "a pipe, a socket or a device" : "a broken link");
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
      fail(
          ExitCode::data,
          "data.files: {}: no HDF5 or NumPy files (*.h5, *.hdf5, *.he5, *.nc, *.mat, *.npy, *.npz) "
          "there",
          name);
    for (std::string& file : some) {
      if (known.insert(file).second) files.push_back(std::move(file));
    }
  }
  return files;
}

}  // namespace trireme
