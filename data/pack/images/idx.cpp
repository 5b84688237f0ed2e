// SPDX-License-Identifier: Apache-2.0
// The IDX format of the MNIST family: two zero bytes, element type, number of dimensions,
// big-endian u32 extents, data.
#include <algorithm>
#include <array>

#include "data/images/decode.h"
#include "data/pack/images/image_source.h"
#include "data/pack/text/text_source.h"
#include "data/shard/data_file.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

// An unpacked file, whose header has been read.
class IdxFile {
 public:
  // With `fewest` to `most` dimensions.
  IdxFile(const std::string& path, const std::string& spool_directory, unsigned fewest,
          unsigned most)
      : path_(path), bytes_(spool_directory) {
    const TextPart whole{path, InputFile(path).size(), nullptr};
    if (whole.bytes == 0) fail(ExitCode::data, "{}: is empty, not an IDX file", path);
    read_text_part(
        whole, [](std::uint64_t) {},
        [&](std::span<const std::byte> unpacked) { bytes_.append(unpacked); });
    std::array<std::byte, 4> head{};
    if (bytes_.size() >= head.size()) bytes_.read(0, head);
    const auto dimensions = static_cast<unsigned>(head[3]);
    constexpr std::byte unsigned_bytes{0x08};
    if (head[0] != std::byte{0} || head[1] != std::byte{0} || head[2] != unsigned_bytes ||
        dimensions < fewest || dimensions > most) {
      fail(ExitCode::data,
           "{}: is not an IDX file of unsigned bytes with {} dimensions (starts with {:02x} {:02x} "
           "{:02x} {:02x})",
           path, fewest == most ? fmt::format("{}", most) : fmt::format("{} or {}", fewest, most),
           static_cast<unsigned>(head[0]), static_cast<unsigned>(head[1]),
           static_cast<unsigned>(head[2]), dimensions);
    }
    begin_ = 4 + 4 * dimensions;
    if (bytes_.size() < begin_) fail(ExitCode::data, "{}: truncated inside its header", path);
    for (std::uint64_t at = 4; at < begin_; at += 4) {
      bytes_.read(at, head);
      extents_.push_back(0);
      for (const std::byte byte : head)
        extents_.back() = (extents_.back() << 8) | static_cast<std::uint64_t>(byte);
      if (extents_.back() == 0) fail(ExitCode::data, "{}: has an extent of 0", path);
    }
  }

  // Of a file with extents[0] items of `item_bytes` and nothing else.
  void require_size(std::uint64_t item_bytes) const {
    const std::uint64_t there = bytes_.size() - begin_;
    if (there / item_bytes != extents_[0] || there % item_bytes != 0)
      fail(ExitCode::data,
           "{}: {}: its header declares {} items of {} bytes, but there are {} bytes", path_,
           there / item_bytes < extents_[0] ? "truncated" : "has more data", extents_[0],
           item_bytes, there);
  }
  void read(std::uint64_t at, std::span<std::byte> to) const { bytes_.read(begin_ + at, to); }
  [[nodiscard]] const std::vector<std::uint64_t>& extents() const { return extents_; }

 private:
  std::string path_;
  SpoolFile bytes_;
  std::uint64_t begin_ = 0;  // of the items
  std::vector<std::uint64_t> extents_;
};

class IdxSource final : public ImageSource {
 public:
  IdxSource(const std::string& images, const std::string& labels,
            std::vector<std::string> class_names, const std::string& spool_directory)
      : path_(images),
        classes_(std::move(class_names)),
        pixels_(images, spool_directory, 3, 4),
        count_(pixels_.extents()[0]) {
    take_shape();
    read_labels(labels, spool_directory);
  }

  [[nodiscard]] std::size_t size() const override { return count_; }
  [[nodiscard]] std::int32_t label(std::size_t index) const override { return labels_[index]; }
  [[nodiscard]] std::string name(std::size_t index) const override {
    return fmt::format("{}: image {}", path_, index);
  }
  [[nodiscard]] const std::vector<std::string>& classes() const override { return classes_; }
  [[nodiscard]] std::int64_t natural_channels() const override { return shape_.channels; }

  [[nodiscard]] Pixels load(std::size_t index, std::int64_t channels) const override {
    Pixels image = shape_;
    image.data.resize(static_cast<std::size_t>(image.height * image.width * image.channels));
    pixels_.read(index * image.data.size(), std::as_writable_bytes(std::span(image.data)));
    return with_channels(std::move(image), channels);
  }

 private:
  void take_shape() {
    const std::vector<std::uint64_t>& extents = pixels_.extents();
    const std::uint64_t channels = extents.size() == 4 ? extents[3] : 1;
    constexpr std::uint64_t longest_side = 1 << 16;
    if (extents[1] > longest_side || extents[2] > longest_side ||
        (channels != 1 && channels != 3)) {
      fail(ExitCode::data,
           "{}: images of {} x {} x {} (height x width x channels) are not supported; sides go up "
           "to {}, channels are 1 or 3",
           path_, extents[1], extents[2], channels, longest_side);
    }
    shape_ = {static_cast<std::int64_t>(extents[1]),
              static_cast<std::int64_t>(extents[2]),
              static_cast<std::int64_t>(channels),
              {}};
    pixels_.require_size(extents[1] * extents[2] * channels);
  }

  void read_labels(const std::string& path, const std::string& spool_directory) {
    const IdxFile file(path, spool_directory, 1, 1);
    if (file.extents()[0] != count_) {
      fail(ExitCode::data,
           "{}: holds {} labels, but {} holds {} images; give two files that belong together", path,
           file.extents()[0], path_, count_);
    }
    file.require_size(1);
    std::vector<std::uint8_t> stored(count_);
    file.read(0, std::as_writable_bytes(std::span(stored)));
    labels_.assign(stored.begin(), stored.end());
    const std::int32_t top = *std::max_element(labels_.begin(), labels_.end());
    if (classes_.empty()) {
      for (std::int32_t i = 0; i <= top; ++i)
        classes_.push_back(fmt::format("{}", i));
    }
    const auto bad = std::find_if(labels_.begin(), labels_.end(), [&](std::int32_t label) {
      return label >= static_cast<std::int32_t>(classes_.size());
    });
    if (bad != labels_.end()) {
      fail(ExitCode::data,
           "{}: label {} of image {} is outside the {} classes (0..{}) given; correct the labels, "
           "or give all classes",
           path, *bad, bad - labels_.begin(), classes_.size(), classes_.size() - 1);
    }
  }

  std::string path_;
  std::vector<std::string> classes_;
  IdxFile pixels_;
  std::size_t count_;
  Pixels shape_;  // without data
  std::vector<std::int32_t> labels_;
};

}  // namespace

std::unique_ptr<ImageSource> open_idx(const std::string& images, const std::string& labels,
                                      std::vector<std::string> class_names,
                                      const std::string& spool_directory) {
  return std::make_unique<IdxSource>(images, labels, std::move(class_names), spool_directory);
}

}  // namespace trireme
