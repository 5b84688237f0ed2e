// SPDX-License-Identifier: Apache-2.0
#include "data/pack/images/image_tree.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "data/files/file_tree.h"
#include "data/images/decode.h"
#include "data/pack/images/image_source.h"
#include "data/shard/data_file.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

using Names = std::vector<std::string>;

// The split named by a folder; empty for none.
std::string split_named(const std::string& folder) {
  if (folder == "val") return "validation";
  return folder == "train" || folder == "validation" || folder == "test" ? folder : "";
}

Names folders_in(const std::string& directory) {
  Names names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    std::error_code broken;  // a circular link
    if (!name.starts_with('.') && entry.is_directory(broken)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool contains(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool holds_files(const std::string& directory) {
  return std::any_of(fs::directory_iterator(directory), fs::directory_iterator(),
                     [](const fs::directory_entry& entry) {
                       std::error_code broken;
                       return !entry.path().filename().string().starts_with('.') &&
                              entry.is_regular_file(broken);
                     });
}

// Whether the folders are splits. Refuses ambiguous ones.
bool are_splits(const std::string& directory, const Names& folders, const Names& class_names) {
  Names splits, others;
  for (const std::string& folder : folders)
    (split_named(folder).empty() ? others : splits).push_back(folder);
  const bool classes = std::all_of(splits.begin(), splits.end(), [&](const std::string& name) {
    return contains(class_names, name);
  });
  if (splits.empty() || classes) return false;
  for (const std::string& split : splits) {
    const std::string path = directory + "/" + split;
    const bool like_a_class = folders_in(path).empty() || holds_files(path);
    if (others.empty() && like_a_class) {
      fail(ExitCode::data,
           "{}: has the name of a split, but contains no class folders, or files beside them; "
           "images of a split are expected at {}/<class>/<image>.jpg; if the folders are classes, "
           "use --class-names {}",
           path, path, fmt::join(folders, ","));
    }
    if (!others.empty() && !like_a_class) {
      fail(ExitCode::data,
           "{}: holds the split {} beside the folder {}; pack a directory of splits or one of "
           "classes; if all its folders are classes, name them with --class-names",
           directory, split, others.front());
    }
  }
  return others.empty();
}

struct ClassFolder {
  std::string path;
  std::string name;
  std::string split;  // as ImageTree::Split::name
};

std::vector<ClassFolder> folders_of_splits(const std::string& directory, const Names& splits) {
  std::map<std::string, std::string> seen;
  std::vector<ClassFolder> all;
  for (const std::string& split : splits) {
    const auto [other, first] = seen.try_emplace(split_named(split), split);
    if (!first) {
      fail(ExitCode::data, "{}: {} and {} are the same split; merge them", directory, other->second,
           split);
    }
    for (const std::string& name : folders_in(directory + "/" + split))
      all.push_back({directory + "/" + split + "/" + name, name, split_named(split)});
  }
  return all;
}

// The classes of the training split, or without one of all.
Names classes_of(const std::vector<ClassFolder>& folders) {
  const bool trains = std::any_of(folders.begin(), folders.end(),
                                  [](const auto& folder) { return folder.split == "train"; });
  Names classes;
  for (const ClassFolder& folder : folders) {
    if (!trains || folder.split == "train") classes.push_back(folder.name);
  }
  std::sort(classes.begin(), classes.end());
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  return classes;
}

// The files of the sorted list `all` that are below `folder`.
Names below(const Names& all, const std::string& folder) {
  const std::string prefix = folder + "/";
  auto first = std::lower_bound(all.begin(), all.end(), prefix);
  Names files;
  for (; first != all.end() && first->starts_with(prefix); ++first)
    files.push_back(*first);
  return files;
}

void add_folder(const ClassFolder& folder, const Names& all, bool classes_given, ImageTree& tree) {
  const auto at = std::find(tree.classes.begin(), tree.classes.end(), folder.name);
  if (at == tree.classes.end()) {
    fail(ExitCode::data, "{}: the folder is not among the {} classes {}", folder.path,
         tree.classes.size(),
         classes_given ? "given (--class-names, --class-file, --classes or --classes-of)"
                       : "of the split train");
  }
  const Names files = below(all, folder.path);
  if (files.empty()) {
    fail(ExitCode::data, "{}: the class folder holds no images; remove it or add images",
         folder.path);
  }
  if (tree.splits.empty() || tree.splits.back().name != folder.split)
    tree.splits.push_back({folder.split, {}, {}});
  ImageTree::Split& split = tree.splits.back();
  split.files.insert(split.files.end(), files.begin(), files.end());
  split.labels.resize(split.files.size(), static_cast<std::int32_t>(at - tree.classes.begin()));
}

}  // namespace

ImageTree list_images(const std::string& input, const Names& class_names) {
  const std::string directory = input.ends_with('/') ? input.substr(0, input.size() - 1) : input;
  const Names names = folders_in(directory);
  if (names.empty()) {
    fail(ExitCode::data, "{}: has no class folders; images are expected at {}/<class>/<image>.jpg",
         directory, directory);
  }
  std::vector<ClassFolder> folders;
  if (are_splits(directory, names, class_names)) {
    folders = folders_of_splits(directory, names);
  } else {
    for (const std::string& name : names)
      folders.push_back({directory + "/" + name, name, ""});
  }
  ImageTree tree;
  tree.classes = class_names.empty() ? classes_of(folders) : class_names;
  const Names files = list_files(directory);
  std::size_t taken = 0;
  for (const ClassFolder& folder : folders)
    add_folder(folder, files, !class_names.empty(), tree);
  for (const ImageTree::Split& split : tree.splits)
    taken += split.files.size();
  if (taken < files.size())
    log::get("data").warn("{}: left out {} files beside the class folders", directory,
                          files.size() - taken);
  return tree;
}

namespace {

constexpr std::uint64_t largest_file = std::uint64_t{1} << 30;

class FolderSource final : public ImageSource {
 public:
  FolderSource(ImageTree::Split split, std::vector<std::string> classes, std::uint64_t max_pixels)
      : split_(std::move(split)), classes_(std::move(classes)), max_pixels_(max_pixels) {}

  [[nodiscard]] std::size_t size() const override { return split_.files.size(); }
  [[nodiscard]] std::int32_t label(std::size_t index) const override {
    return split_.labels[index];
  }
  [[nodiscard]] std::string name(std::size_t index) const override { return split_.files[index]; }
  [[nodiscard]] const std::vector<std::string>& classes() const override { return classes_; }
  [[nodiscard]] std::int64_t natural_channels() const override { return 3; }

  [[nodiscard]] Pixels load(std::size_t index, std::int64_t channels) const override {
    const std::string& name = split_.files[index];
    const InputFile file(name);
    if (file.size() > largest_file) {
      fail(ExitCode::data, "{}: has {} bytes, too many for an image; drop it with --skip-bad", name,
           file.size());
    }
    std::vector<std::byte> bytes(file.size());
    file.read(0, bytes);
    try {
      return decode_image(bytes, channels, max_pixels_, name);
    } catch (const DamagedImage& error) {
      fail(ExitCode::data, "{}; {} --skip-bad", error.what(),
           error.too_large() ? "raise --max-pixels if the image is valid, or drop it with"
                             : "replace it, or drop it with");
    }
  }

 private:
  ImageTree::Split split_;
  std::vector<std::string> classes_;
  std::uint64_t max_pixels_;
};

}  // namespace

std::vector<SplitSource> open_image_folder(const std::string& directory,
                                           const std::vector<std::string>& class_names,
                                           std::uint64_t max_pixels) {
  try {
    ImageTree tree = list_images(directory, class_names);
    std::vector<SplitSource> sources;
    for (ImageTree::Split& split : tree.splits) {
      const std::string name = split.name;
      sources.push_back(
          {name, std::make_unique<FolderSource>(std::move(split), tree.classes, max_pixels)});
    }
    return sources;
  } catch (const std::filesystem::filesystem_error& error) {
    fail(ExitCode::data, "{}: cannot be listed: {}", error.path1().string(),
         error.code().message());
  }
}

}  // namespace trireme
