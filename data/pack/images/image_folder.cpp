// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "data/images/decode.h"
#include "data/pack/images/image_source.h"
#include "data/pack/images/image_tree.h"
#include "data/shard/file.h"
#include "runtime/base/error.h"

namespace trireme {
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
           error.too_large() ? "raise --max-pixels if it is genuine, or drop it with"
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
