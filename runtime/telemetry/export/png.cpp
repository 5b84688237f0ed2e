// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/export/png.h"

#include <png.h>

#include "runtime/base/error.h"

namespace trireme {

std::string png_of(std::span<const std::byte> pixels, std::int64_t height, std::int64_t width,
                   std::int64_t channels) {
  TRIREME_EXPECTS(
      (channels == 1 || channels == 3) && std::ssize(pixels) == height * width * channels,
      "{} bytes of {} x {} pixels with {} channels", pixels.size(), height, width, channels);
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.height = static_cast<png_uint_32>(height);
  image.width = static_cast<png_uint_32>(width);
  image.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  std::string file(PNG_IMAGE_PNG_SIZE_MAX(image), '\0');
  png_alloc_size_t bytes = file.size();
  if (png_image_write_to_memory(&image, file.data(), &bytes, /*convert_to_8bit=*/0, pixels.data(),
                                /*row_stride=*/0, /*colormap=*/nullptr) == 0)
    fail(ExitCode::internal, "png_image_write_to_memory failed: {}", image.message);
  file.resize(bytes);
  return file;
}

}  // namespace trireme
