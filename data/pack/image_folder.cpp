// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>

#include "data/file.h"
#include "data/pack/decode.h"
#include "data/pack/image_source.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t largest_file = std::uint64_t{1} << 30;

bool hidden(const fs::path& path) {
  return path.filename().string().starts_with('.');
}

std::vector<std::string> folders_in(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.is_directory() && !hidden(entry.path()))
      names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> files_below(const fs::path& directory) {
  std::vector<std::string> files;
  for (fs::recursive_directory_iterator
           it(directory, fs::directory_options::follow_directory_symlink),
       end;
       it != end; ++it) {
    if (hidden(it->path())) {
      it.disable_recursion_pending();
    } else if (it->is_regular_file()) {
      files.push_back(it->path().string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

class FolderSource final : public ImageSource {
 public:
  FolderSource(const std::string& directory, std::vector<std::string> class_names,
               std::uint64_t max_pixels)
      : classes_(std::move(class_names)), max_pixels_(max_pixels) {
    const std::vector<std::string> folders = folders_in(directory);
    if (folders.empty()) {
      fail(ExitCode::data,
           "{}: has no class folders; images are expected at {}/<class>/<image>.jpg", directory,
           directory);
    }
    if (classes_.empty()) classes_ = folders;
    for (const std::string& folder : folders)
      add_folder(directory, folder);
  }

  [[nodiscard]] std::size_t size() const override { return files_.size(); }
  [[nodiscard]] std::int32_t label(std::size_t index) const override { return labels_[index]; }
  [[nodiscard]] std::string name(std::size_t index) const override { return files_[index]; }
  [[nodiscard]] const std::vector<std::string>& classes() const override { return classes_; }
  [[nodiscard]] std::int64_t natural_channels() const override { return 3; }

  [[nodiscard]] Pixels load(std::size_t index, std::int64_t channels) const override {
    const InputFile file(files_[index]);
    if (file.size() > largest_file) {
      fail(ExitCode::data, "{}: has {} bytes, too many for an image; drop it with --skip-bad",
           files_[index], file.size());
    }
    std::vector<std::byte> bytes(file.size());
    file.read(0, bytes);
    return decode_image(bytes, channels, max_pixels_, files_[index]);
  }

 private:
  void add_folder(const std::string& directory, const std::string& folder) {
    const auto at = std::find(classes_.begin(), classes_.end(), folder);
    if (at == classes_.end()) {
      fail(ExitCode::data, "{}/{}: the folder is not among the {} classes given with --class-names",
           directory, folder, classes_.size());
    }
    const std::vector<std::string> files = files_below(fs::path(directory) / folder);
    if (files.empty()) {
      fail(ExitCode::data, "{}/{}: the class folder holds no images; remove it or fill it",
           directory, folder);
    }
    files_.insert(files_.end(), files.begin(), files.end());
    labels_.resize(files_.size(), static_cast<std::int32_t>(at - classes_.begin()));
  }

  std::vector<std::string> classes_;
  std::uint64_t max_pixels_;
  std::vector<std::string> files_;
  std::vector<std::int32_t> labels_;
};

}  // namespace

std::unique_ptr<ImageSource> open_image_folder(const std::string& directory,
                                               std::vector<std::string> class_names,
                                               std::uint64_t max_pixels) {
  try {
    return std::make_unique<FolderSource>(directory, std::move(class_names), max_pixels);
  } catch (const fs::filesystem_error& error) {
    fail(ExitCode::data, "{}: cannot be listed: {}", error.path1().string(),
         error.code().message());
  }
}

}  // namespace trireme
