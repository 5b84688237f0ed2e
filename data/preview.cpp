// SPDX-License-Identifier: Apache-2.0
#include "data/preview.h"

#include <png.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "runtime/base/error.h"
#include "runtime/nn/batch.h"

namespace trireme {
namespace {

constexpr std::int64_t gap = 2;  // pixels between channels

// Channels in a nearly square grid.
struct Grid {
  std::int64_t columns = 0, width = 0, height = 0;
};

Grid grid_of(const SampleShape& shape) {
  Grid grid;
  grid.columns = static_cast<std::int64_t>(
      std::ceil(std::sqrt(static_cast<double>(shape.channels() * shape.height()) /
                          static_cast<double>(shape.width()))));
  grid.columns = std::clamp<std::int64_t>(grid.columns, 1, shape.channels());
  const std::int64_t rows = (shape.channels() - 1) / grid.columns + 1;
  grid.width = grid.columns * (shape.width() + gap) - gap;
  grid.height = rows * (shape.height() + gap) - gap;
  return grid;
}

void draw_channel(const SampleShape& shape, const Grid& grid, std::int64_t channel,
                  std::span<const float> sample, std::vector<std::uint8_t>& picture) {
  float low = std::numeric_limits<float>::infinity(), high = -low;
  const auto at = [&](std::int64_t pixel) {
    return sample[static_cast<std::size_t>(pixel * shape.channels() + channel)];
  };
  const std::int64_t pixels = shape.height() * shape.width();
  for (std::int64_t i = 0; i < pixels; ++i) {
    if (!std::isfinite(at(i))) continue;
    low = std::min(low, at(i));
    high = std::max(high, at(i));
  }
  const std::int64_t left = channel % grid.columns * (shape.width() + gap),
                     top = channel / grid.columns * (shape.height() + gap);
  for (std::int64_t i = 0; i < pixels; ++i) {
    if (!std::isfinite(at(i))) continue;
    const float share = high > low ? (at(i) - low) / (high - low) : 0.5F;
    const std::int64_t x = left + i % shape.width(), y = top + i / shape.width();
    picture[static_cast<std::size_t>(y * grid.width + x)] =
        static_cast<std::uint8_t>(std::lround(255 * share));
  }
}

struct Picture {
  std::int64_t height = 0, width = 0;
  bool colours = false;
  std::vector<std::uint8_t> pixels;
};

void write_png(const std::string& path, const Picture& picture) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(picture.width);
  image.height = static_cast<png_uint_32>(picture.height);
  image.format = picture.colours ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  if (png_image_write_to_file(&image, path.c_str(), 0, picture.pixels.data(), 0, nullptr) == 0)
    library_failed(fmt::format("png_image_write_to_file({})", path), image.message);
}

std::string label_text(std::int32_t label) {
  return fmt::format("_label_{}", label);
}

// `draw` returns the picture of a sample, empty if it is damaged, and sets the name of its label.
template <typename Draw>
std::vector<std::string> write_pictures(const Dataset& data, const std::string& directory,
                                        std::int64_t count, Draw&& draw) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) fail(ExitCode::data, "{}: {}", directory, error.message());
  std::vector<std::string> paths;
  count = std::min(count, data.size());
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t index = i * data.size() / count;
    std::string label;
    const Picture picture = draw(index, label);
    if (picture.pixels.empty()) continue;
    paths.push_back(fmt::format("{}/sample_{:06}{}.png", directory, index, label));
    write_png(paths.back(), picture);
  }
  return paths;
}

}  // namespace

std::vector<std::string> write_previews(const FieldDataset& data, const std::string& directory,
                                        std::int64_t count) {
  const SampleShape& shape = data.shape();
  const Grid grid = grid_of(shape);
  std::vector<float> sample(static_cast<std::size_t>(data.layout().inputs.count()));
  std::vector<std::int32_t> targets(static_cast<std::size_t>(data.layout().targets.count()));
  const auto slice = static_cast<std::size_t>(shape.height() * shape.width() * shape.channels()),
             middle = static_cast<std::size_t>(shape.depth() / 2) * slice;
  return write_pictures(data, directory, count, [&](std::int64_t index, std::string& label) {
    data.read(index, std::as_writable_bytes(std::span(sample)), targets);
    const bool labelled = data.layout().targets.rank() == 0;
    if (labelled && targets.front() == ignored_target) return Picture{};
    if (labelled) label = label_text(targets.front());
    Picture picture{grid.height, grid.width, false, {}};
    picture.pixels.resize(static_cast<std::size_t>(grid.width * grid.height));
    for (std::int64_t c = 0; c < shape.channels(); ++c)
      draw_channel(shape, grid, c, std::span(sample).subspan(middle, slice), picture.pixels);
    return picture;
  });
}

std::vector<std::string> write_previews(const ImageFilesDataset& data, const std::string& directory,
                                        std::int64_t count) {
  const Shape& shape = data.layout().inputs;  // (H, W, C)
  return write_pictures(data, directory, count, [&](std::int64_t index, std::string& label) {
    std::int32_t number = 0;
    Picture picture{shape[0], shape[1], shape[2] == 3, {}};
    picture.pixels.resize(data.layout().input_bytes());
    data.read(index, std::as_writable_bytes(std::span(picture.pixels)), {&number, 1});
    if (number == ignored_target) return Picture{};
    label = label_text(number);
    return picture;
  });
}

}  // namespace trireme
