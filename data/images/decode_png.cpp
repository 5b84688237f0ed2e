// SPDX-License-Identifier: Apache-2.0
// Pixels as stored: without gamma, profile or transparency; 16-bit values keep their high byte.
// libpng's simplified interface would apply gAMA and treat 16 bits as linear light.
#include <png.h>

#include <csetjmp>
#include <cstring>

#include "data/images/decode.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

// libpng reports by longjmp, so functions with setjmp must not hold objects with destructors.
class PngReader {
 public:
  explicit PngReader(std::span<const std::byte> bytes) : left_(bytes) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    if (info_ == nullptr) library_failed("png_create_read_struct", "no memory");
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  // Like all below, returns false with message() set if the file is damaged.
  [[nodiscard]] bool read_header() {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;  // NOLINT: libpng's way to report
    png_set_read_fn(png_, this, read_bytes);
    // Ancillary chunks except tRNS are not parsed.
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_read_info(png_, info_);
    return true;
  }
  // From now on a row has 1 or 3 bytes per pixel, or an index.
  [[nodiscard]] bool choose_transforms() {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;  // NOLINT
    const int type = png_get_color_type(png_, info_);
    png_set_strip_16(png_);
    png_set_packing(png_);
    if (type == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png_);
    if ((type & PNG_COLOR_MASK_ALPHA) != 0) png_set_strip_alpha(png_);
    static_cast<void>(png_set_interlace_handling(png_));
    png_read_update_info(png_, info_);
    return true;
  }
  [[nodiscard]] bool read_rows(png_bytepp rows) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;  // NOLINT
    png_read_image(png_, rows);
    png_read_end(png_, nullptr);
    return true;
  }

  [[nodiscard]] std::int64_t width() const { return png_get_image_width(png_, info_); }
  [[nodiscard]] std::int64_t height() const { return png_get_image_height(png_, info_); }
  [[nodiscard]] std::int64_t channels() const { return png_get_channels(png_, info_); }
  [[nodiscard]] std::size_t row_bytes() const { return png_get_rowbytes(png_, info_); }
  // For indexed images; empty for others.
  [[nodiscard]] std::span<const png_color> palette() const {
    png_colorp colours = nullptr;
    int count = 0;
    if (png_get_color_type(png_, info_) != PNG_COLOR_TYPE_PALETTE) return {};
    png_get_PLTE(png_, info_, &colours, &count);
    return {colours, static_cast<std::size_t>(count)};
  }
  [[nodiscard]] const char* message() const { return message_; }

 private:
  static void on_error(png_structp png, png_const_charp message) {
    auto* const self = static_cast<PngReader*>(png_get_error_ptr(png));
    std::strncpy(self->message_, message, sizeof(self->message_) - 1);
    png_longjmp(png, 1);
  }
  static void on_warning(png_structp /*png*/, png_const_charp /*message*/) {}
  static void read_bytes(png_structp png, png_bytep to, png_size_t size) {
    auto* const self = static_cast<PngReader*>(png_get_io_ptr(png));
    if (size > self->left_.size()) png_error(png, "the file ends early");
    std::memcpy(to, self->left_.data(), size);
    self->left_ = self->left_.subspan(size);
  }

  std::span<const std::byte> left_;
  char message_[160] = {};
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

Pixels coloured(const Pixels& indices, std::span<const png_color> palette) {
  Pixels image{indices.height, indices.width, 3, {}};
  image.data.reserve(indices.data.size() * 3);
  for (const std::uint8_t index : indices.data) {
    if (index >= palette.size()) refuse_image("PNG", "a pixel lies outside the palette");
    const png_color& colour = palette[index];
    image.data.insert(image.data.end(), {colour.red, colour.green, colour.blue});
  }
  return image;
}

}  // namespace

Pixels decode_png(std::span<const std::byte> bytes, std::uint64_t max_pixels) {
  PngReader reader(bytes);
  if (!reader.read_header()) refuse_image("PNG", reader.message());
  check_pixel_count({reader.height(), reader.width()}, max_pixels);
  if (!reader.choose_transforms()) refuse_image("PNG", reader.message());
  Pixels image{reader.height(), reader.width(), reader.channels(), {}};
  const auto row_bytes = static_cast<std::size_t>(image.width * image.channels);
  TRIREME_EXPECTS(reader.row_bytes() == row_bytes, "rows of {} bytes, not {}", reader.row_bytes(),
                  row_bytes);
  image.data.resize(row_bytes * static_cast<std::size_t>(image.height));
  std::vector<png_bytep> rows;
  for (std::size_t y = 0; y < static_cast<std::size_t>(image.height); ++y)
    rows.push_back(image.data.data() + y * row_bytes);
  if (!reader.read_rows(rows.data())) refuse_image("PNG", reader.message());
  if (const auto palette = reader.palette(); !palette.empty()) image = coloured(image, palette);
  return image;
}

}  // namespace trireme
