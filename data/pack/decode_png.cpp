// SPDX-License-Identifier: Apache-2.0
#include <png.h>

#include "data/pack/decode.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

// Frees what libpng keeps between its two calls.
class PngReader {
 public:
  PngReader() { image_.version = PNG_IMAGE_VERSION; }
  ~PngReader() { png_image_free(&image_); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
  [[nodiscard]] png_image& get() { return image_; }

 private:
  png_image image_{};
};

[[noreturn]] void refuse(const std::string& name, const png_image& image) {
  fail(ExitCode::data, "{}: damaged PNG: {}; replace it or drop it with --skip-bad", name,
       static_cast<const char*>(image.message));
}

}  // namespace

Pixels decode_png(std::span<const std::byte> bytes, std::int64_t channels, std::uint64_t max_pixels,
                  const std::string& name) {
  PngReader reader;
  png_image& image = reader.get();
  if (png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()) == 0)
    refuse(name, image);
  check_pixel_count(image.width, image.height, max_pixels, name);
  image.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  Pixels out{image.height, image.width, channels, {}};
  out.data.resize(static_cast<std::size_t>(out.height * out.width * channels));
  const png_color black{0, 0, 0};
  if (png_image_finish_read(&image, &black, out.data.data(), 0, nullptr) == 0) refuse(name, image);
  return out;
}

}  // namespace trireme
