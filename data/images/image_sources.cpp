// SPDX-License-Identifier: Apache-2.0
#include "data/images/image_sources.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <unordered_map>
#include <unordered_set>

#include "data/fields/index_store.h"
#include "data/files/file_tree.h"
#include "data/files/parallel.h"
#include "data/index_archive.h"
#include "data/shard/shard.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

constexpr std::string_view what_is_read =
    "archives of WebDataset (*.tar), or one directory of class folders <class>/<image>.jpg";

struct Listing {
  Names archives, folders;  // in a directory, sorted
};

Listing list_directory(const std::string& path) {
  Listing found;
  std::error_code error;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    std::error_code broken;
    if (name.starts_with('.')) continue;
    if (at->is_directory(broken))
      found.folders.push_back(path + "/" + name);
    else if (name.ends_with(".tar"))
      found.archives.push_back(path + "/" + name);
  }
  if (error) fail(ExitCode::data, "data.images: {}: {}", path, error.message());
  std::ranges::sort(found.archives);
  std::ranges::sort(found.folders);
  return found;
}

std::string last_part(const std::string& path) {
  return fs::path(path).filename().string();
}

// Lower case, without the dot.
std::string extension_of(const std::string& path) {
  std::string extension = fs::path(path).extension().string();
  if (!extension.empty()) extension.erase(0, 1);
  std::ranges::transform(extension, extension.begin(), [](unsigned char letter) {
    return static_cast<char>(std::tolower(letter));
  });
  return extension;
}

// Their classes would be "train" and "val".
void refuse_splits(const std::string& path, const Names& folders) {
  const auto split = [](const std::string& folder) {
    const std::string name = last_part(folder);
    return name == "train" || name == "val" || name == "validation" || name == "test";
  };
  const bool splits = std::ranges::all_of(folders, [&](const std::string& folder) {
    if (!split(folder)) return false;
    const Listing inside = list_directory(folder);
    return !inside.folders.empty() || !inside.archives.empty();
  });
  if (splits) {
    fail(ExitCode::data,
         "data.images: {}: holds the splits {}; name one of them, as in data.images: [{}]", path,
         fmt::join(folders, ", "), folders.front());
  }
}

ImageSources class_folders(const std::string& path, Names folders) {
  if (folders.empty())
    fail(ExitCode::data, "data.images: {}: holds neither *.tar nor class folders; {}", path,
         what_is_read);
  refuse_splits(path, folders);
  ImageSources sources;
  std::ranges::transform(folders, std::back_inserter(sources.classes), last_part);
  require_class_names("data.images: " + path, sources.classes);
  sources.paths = std::move(folders);
  return sources;
}

std::string line_of(const ImageScan& scan) {
  return fmt::format("trireme-images\t{}\t{}\t{}", scan.rule.extension, scan.rule.field,
                     fmt::join(scan.sources.classes, "\t"));
}

}  // namespace

ImageSources find_images(const std::vector<std::string>& names) {
  ImageSources sources;
  std::unordered_set<std::string> known;
  const auto add = [&](const Names& archives) {
    for (const std::string& archive : archives) {
      if (known.insert(archive).second) sources.paths.push_back(archive);
    }
  };
  for (const std::string& given : names) {
    const std::string name =
        given.size() > 1 && given.ends_with('/') ? given.substr(0, given.size() - 1) : given;
    std::error_code ignored;
    if (fs::is_directory(name, ignored)) {
      Listing found = list_directory(name);
      if (!found.archives.empty() && !found.folders.empty())
        fail(ExitCode::data,
             "data.images: {}: holds archives ({}) beside folders ({}); name the archives by a "
             "pattern, as in {}/*.tar, or move one kind elsewhere",
             name, found.archives.front(), found.folders.front(), name);
      if (found.archives.empty() && names.size() > 1)
        fail(ExitCode::data,
             "data.images: {}: a directory of class folders must be the only name, but {} names "
             "are given",
             name, names.size());
      if (found.archives.empty()) return class_folders(name, std::move(found.folders));
      add(found.archives);
    } else if (fs::exists(name, ignored)) {
      add({name});
    } else if (name.find_first_of("*?[") != name.npos) {
      const Names found = files_like("data.images", name);
      if (found.empty()) fail(ExitCode::data, "data.images: {}: no matching file", name);
      add(found);
    } else {
      fail(ExitCode::data, "data.images: {}: there is no such file or directory", name);
    }
  }
  return sources;
}

bool names_images(const std::string& name) {
  std::error_code error;
  if (!fs::is_directory(name, error)) return name.ends_with(".tar");
  constexpr std::size_t most = 10'000;  // examined files: there may be millions of others
  std::size_t looked_at = 0;
  bool found = false;
  for (fs::recursive_directory_iterator at(name, error), end;
       !error && at != end && looked_at < most; at.increment(error), ++looked_at) {
    const std::string file = at->path().filename().string();
    if (at.depth() <= 1 && file == shard_file_name(0)) return false;
    found = found || (at.depth() <= 1 && file.ends_with(".tar")) ||
            (at.depth() >= 1 && is_image_name(extension_of(file)));
    if (found && at.depth() > 1) break;
  }
  return found;
}

ImageIndex index_of_folder(const std::string& path, std::int32_t label) {
  ImageIndex index;
  index.path = path;
  index.folder = true;
  FileTree tree;
  try {
    tree = walk_files(path);
  } catch (const fs::filesystem_error& error) {
    fail(ExitCode::data, "{}: cannot be listed: {}", error.path1().string(),
         error.code().message());
  }
  for (const std::string& folder : tree.folders)
    index.folders.push_back(state_of_folder(folder));
  if (!tree.left_out.empty())
    index.notes.push_back(fmt::format("{}: left out {}", path, tree.left_out));
  std::size_t others = 0;
  for (const std::string& file : tree.files) {
    const std::string kind = extension_of(file);
    if (is_other_image_name(kind)) {
      index.problems.push_back(file + ": only JPEG and PNG images can be read");
      continue;
    }
    if (!is_image_name(kind)) {
      if (others++ == 0) index.notes.push_back(file + ": is left out: not an image by name");
      continue;
    }
    const FileState state = state_of_file(file);
    if (state.size == 0 || state.size > most_image_bytes) {
      index.problems.push_back(file + (state.size == 0 ? ": is empty" : ": exceeds a gigabyte"));
      continue;
    }
    index.names += std::string_view(file).substr(path.size() + 1);
    index.images.push_back({index.names.size(), static_cast<std::uint32_t>(state.size), label});
    index.modified.push_back(state.modified);
  }
  if (others > 1) index.notes.back() += fmt::format(" (and {} more files of {})", others - 1, path);
  if (index.images.empty() && index.problems.empty())
    index.problems.push_back(path + ": the class folder holds no images");
  return index;
}

std::vector<ImageIndex> scan_images(const ImageScan& scan, std::span<const std::string> paths,
                                    std::size_t threads) {
  std::unordered_map<std::string_view, std::int32_t> labels;
  for (std::size_t i = 0; i < scan.sources.classes.size(); ++i)
    labels.emplace(scan.sources.paths[i], static_cast<std::int32_t>(i));
  std::vector<ImageIndex> indexes(paths.size());
  parallel_for(paths.size(), threads, [&](std::size_t i) {
    indexes[i] = scan.sources.classes.empty() ? index_of_archive(paths[i], scan.rule)
                                              : index_of_folder(paths[i], labels.at(paths[i]));
  });
  return indexes;
}

void keep_image_indexes(const std::string& path, const ImageScan& scan,
                        std::span<const ImageIndex> indexes) {
  std::vector<std::string> texts;
  std::ranges::transform(indexes, std::back_inserter(texts), bytes_of);
  std::string bytes;
  IndexWriter writer(bytes);
  writer(texts);
  keep_index_file(path, line_of(scan), bytes);
}

KeptImages kept_images(const std::string& path, const ImageScan& scan) {
  KeptImages kept;
  try {
    const std::unordered_set<std::string> wanted(scan.sources.paths.begin(),
                                                 scan.sources.paths.end());
    const std::string bytes = kept_index_file(path, line_of(scan));
    std::vector<std::string> texts;
    if (!bytes.empty()) IndexParser(bytes, "an index of images")(texts);
    for (const std::string& text : texts) {
      ImageIndex index = parse_image_index(text);
      if (!wanted.contains(index.path)) continue;
      (is_as_it_was(index) ? kept.good : kept.stale).push_back(std::move(index));
    }
  } catch (const Error& error) {
    log::get("data").info("{}: is not used: {}", path, error.what());
    kept = {};
  }
  return kept;
}

std::vector<std::string> touched_files(const ImageIndex& before, const ImageIndex& now) {
  std::vector<std::string> touched;
  if (!now.folder) {
    if (before.state.size == now.state.size && before.state.modified != now.state.modified)
      touched.push_back(now.path);
    return touched;
  }
  std::unordered_map<std::string_view, std::size_t> known;
  for (std::size_t i = 0; i < before.images.size(); ++i)
    known.emplace(before.name_of(i), i);
  for (std::size_t i = 0; i < now.images.size(); ++i) {
    const auto found = known.find(now.name_of(i));
    if (found == known.end()) continue;
    if (before.images[found->second].bytes == now.images[i].bytes &&
        before.modified[found->second] != now.modified[i])
      touched.push_back(fmt::format("{}/{}", now.path, now.name_of(i)));
  }
  return touched;
}

}  // namespace trireme
