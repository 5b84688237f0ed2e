// SPDX-License-Identifier: Apache-2.0
// The IDX format of the MNIST family: two zero bytes, element type, number of dimensions,
// big-endian u32 extents, data.
#include <zlib.h>

#include <algorithm>
#include <array>

#include "data/images/decode.h"
#include "data/pack/images/image_source.h"
#include "data/shard/data_file.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

// Reads a plain or gzip file; zlib detects which.
class GzipReader {
 public:
  explicit GzipReader(const std::string& path) : path_(path) {
    if (InputFile(path).size() == 0) fail(ExitCode::data, "{}: is empty, not an IDX file", path);
    file_ = gzopen(path.c_str(), "rb");
    if (file_ == nullptr) system_failed("gzopen", path, ExitCode::data);
  }
  ~GzipReader() { gzclose(file_); }
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;

  // Number of bytes read; less than requested only at the end of the data.
  [[nodiscard]] std::size_t read(std::span<std::byte> to) {
    std::size_t done = 0;
    while (done < to.size()) {
      const auto want = static_cast<unsigned>(std::min<std::size_t>(to.size() - done, 1U << 30));
      const int got = gzread(file_, to.data() + done, want);
      int code = Z_OK;
      const char* const reason = gzerror(file_, &code);
      // A truncated gzip file reads short with Z_BUF_ERROR.
      if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) {
        fail(ExitCode::data, "{}: damaged or truncated gzip file: {}", path_, reason);
      }
      if (got == 0) break;
      done += static_cast<std::size_t>(got);
    }
    return done;
  }

 private:
  const std::string& path_;
  gzFile file_ = nullptr;
};

std::vector<std::uint64_t> read_extents(GzipReader& reader, const std::string& path, unsigned min,
                                        unsigned max) {
  std::array<std::byte, 4> head{};
  const bool whole = reader.read(head) == head.size();
  const auto dimensions = static_cast<unsigned>(head[3]);
  constexpr std::byte unsigned_bytes{0x08};
  if (!whole || head[0] != std::byte{0} || head[1] != std::byte{0} || head[2] != unsigned_bytes ||
      dimensions < min || dimensions > max) {
    fail(ExitCode::data,
         "{}: is not an IDX file of unsigned bytes with {} dimensions (starts with {:02x} {:02x} "
         "{:02x} {:02x})",
         path, min == max ? fmt::format("{}", min) : fmt::format("{} or {}", min, max),
         static_cast<unsigned>(head[0]), static_cast<unsigned>(head[1]),
         static_cast<unsigned>(head[2]), dimensions);
  }
  std::vector<std::uint64_t> extents(dimensions);
  for (std::uint64_t& extent : extents) {
    std::array<std::byte, 4> word{};
    if (reader.read(word) != word.size())
      fail(ExitCode::data, "{}: truncated inside its header", path);
    for (const std::byte byte : word)
      extent = (extent << 8) | static_cast<std::uint64_t>(byte);
    if (extent == 0) fail(ExitCode::data, "{}: has an extent of 0", path);
  }
  return extents;
}

// Passes exactly `bytes` to `take`; both less and more are errors.
template <typename Take>
void read_data(GzipReader& reader, const std::string& path, std::uint64_t bytes, Take&& take) {
  std::vector<std::byte> block(std::min<std::uint64_t>(bytes, std::uint64_t{1} << 20));
  for (std::uint64_t done = 0; done < bytes;) {
    const auto want = std::span(block).first(std::min<std::uint64_t>(block.size(), bytes - done));
    const std::size_t got = reader.read(want);
    if (got != want.size()) {
      fail(ExitCode::data, "{}: truncated: its header declares {} bytes of data, but there are {}",
           path, bytes, done + got);
    }
    take(want);
    done += got;
  }
  std::array<std::byte, 1> extra{};
  if (reader.read(extra) != 0)
    fail(ExitCode::data, "{}: has more data than the {} bytes that its header declares", path,
         bytes);
}

class IdxSource final : public ImageSource {
 public:
  IdxSource(const std::string& images, const std::string& labels,
            std::vector<std::string> class_names, const std::string& spool_directory)
      : path_(images), classes_(std::move(class_names)), pixels_(spool_directory) {
    read_images();
    read_labels(labels);
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
  void read_images() {
    GzipReader reader(path_);
    const std::vector<std::uint64_t> extents = read_extents(reader, path_, 3, 4);
    count_ = extents[0];
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
    read_data(reader, path_, count_ * extents[1] * extents[2] * channels,
              [&](auto block) { pixels_.append(block); });
  }

  void read_labels(const std::string& path) {
    GzipReader reader(path);
    const std::vector<std::uint64_t> extents = read_extents(reader, path, 1, 1);
    if (extents[0] != count_) {
      fail(ExitCode::data,
           "{}: holds {} labels, but {} holds {} images; give two files that belong together", path,
           extents[0], path_, count_);
    }
    labels_.reserve(count_);
    read_data(reader, path, count_, [&](auto block) {
      for (const std::byte label : block)
        labels_.push_back(static_cast<std::int32_t>(label));
    });
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
  SpoolFile pixels_;
  Pixels shape_;  // without data
  std::size_t count_ = 0;
  std::vector<std::int32_t> labels_;
};

}  // namespace

std::unique_ptr<ImageSource> open_idx(const std::string& images, const std::string& labels,
                                      std::vector<std::string> class_names,
                                      const std::string& spool_directory) {
  return std::make_unique<IdxSource>(images, labels, std::move(class_names), spool_directory);
}

}  // namespace trireme
