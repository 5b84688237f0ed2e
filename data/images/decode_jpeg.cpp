// SPDX-License-Identifier: Apache-2.0
// Uses libjpeg-turbo's own interface, because TurboJPEG's decodes only whole images.
#include <csetjmp>
#include <cstdio>

#include <jpeglib.h>

#include <algorithm>
#include <cstring>

#include "data/images/decode.h"

namespace trireme {
namespace {

// libjpeg reports by longjmp, so functions with setjmp must not hold objects with destructors.
class JpegReader {
 public:
  explicit JpegReader(std::span<const std::byte> bytes) : bytes_(bytes) {
    it_.err = jpeg_std_error(&errors_);
    errors_.error_exit = on_error;
    errors_.emit_message = on_message;
    it_.client_data = this;
    progress_.progress_monitor = on_progress;
    if (setjmp(jump_) != 0) library_failed("jpeg_create_decompress", message_);  // NOLINT
    jpeg_create_decompress(&it_);
    it_.progress = &progress_;
  }
  ~JpegReader() { jpeg_destroy_decompress(&it_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  // Like all below, returns false with message() set if the file is damaged.
  [[nodiscard]] bool read_header() {
    if (setjmp(jump_) != 0) return false;  // NOLINT: libjpeg's way to report
    jpeg_mem_src(&it_, reinterpret_cast<const unsigned char*>(bytes_.data()),
                 static_cast<unsigned long>(bytes_.size()));
    jpeg_read_header(&it_, TRUE);
    return true;
  }

  // From now on rows hold only the columns of `window`, in the image reduced to size().
  [[nodiscard]] bool start(const PartWanted& wanted) {
    if (setjmp(jump_) != 0) return false;  // NOLINT
    const bool grey = it_.jpeg_color_space == JCS_GRAYSCALE;
    it_.out_color_space = is_inked() ? JCS_CMYK : grey ? JCS_GRAYSCALE : JCS_RGB;
    it_.dct_method = JDCT_ISLOW;
    it_.scale_num = 1;
    it_.scale_denom = static_cast<unsigned>(wanted.reduction);
    jpeg_start_decompress(&it_);
    size_ = {it_.output_height, it_.output_width};
    window_ = reduced(wanted.region, wanted.reduction);
    if (window_.width == size_.width) return true;
    // One more column on each side than chroma samples cover, so that edge pixels equal those of
    // the whole image.
    auto left = static_cast<JDIMENSION>(std::max<std::int64_t>(0, window_.left - margin));
    const std::int64_t end = std::min(size_.width, window_.left + window_.width + margin);
    auto width = static_cast<JDIMENSION>(end - left);
    jpeg_crop_scanline(&it_, &left, &width);
    window_.left = left;
    window_.width = width;
    return true;
  }

  [[nodiscard]] bool read_rows(std::uint8_t* to) {
    if (setjmp(jump_) != 0) return false;  // NOLINT
    const auto end = static_cast<JDIMENSION>(window_.top + window_.height);
    if (window_.top > 0) jpeg_skip_scanlines(&it_, static_cast<JDIMENSION>(window_.top));
    const std::size_t row = row_bytes();
    while (it_.output_scanline < end) {
      jpeg_read_scanlines(&it_, &to, 1);
      to += row;
    }
    if (it_.output_scanline == it_.output_height) {
      jpeg_finish_decompress(&it_);
    } else {
      jpeg_abort_decompress(&it_);
    }
    return true;
  }

  // Whether the end marker follows what has been read. Compressed data cannot contain it.
  [[nodiscard]] bool has_end() const {
    const auto* const from = reinterpret_cast<const std::byte*>(it_.src->next_input_byte);
    for (const std::byte* at = bytes_.data() + bytes_.size() - 1; at > from; --at) {
      if (at[-1] == std::byte{0xff} && at[0] == std::byte{JPEG_EOI}) return true;
    }
    return false;
  }

  [[nodiscard]] ImageSize full_size() const { return {it_.image_height, it_.image_width}; }
  [[nodiscard]] const ImageSize& size() const { return size_; }
  [[nodiscard]] const Region& window() const { return window_; }
  [[nodiscard]] std::int64_t components() const { return it_.out_color_components; }
  [[nodiscard]] bool is_inked() const {
    return it_.jpeg_color_space == JCS_CMYK || it_.jpeg_color_space == JCS_YCCK;
  }
  [[nodiscard]] std::size_t row_bytes() const {
    return static_cast<std::size_t>(window_.width * components());
  }
  [[nodiscard]] const char* message() const { return message_; }

 private:
  // Pixels: a chroma sample covers up to four columns and is interpolated with its neighbours.
  static constexpr std::int64_t margin = 16;

  static JpegReader& self(j_common_ptr it) { return *static_cast<JpegReader*>(it->client_data); }
  static void on_error(j_common_ptr it) {
    (*it->err->format_message)(it, self(it).message_);
    longjmp(self(it).jump_, 1);  // NOLINT
  }
  // Warnings (a missing end, corrupt entropy data) also fail.
  static void on_message(j_common_ptr it, int level) {
    if (level < 0) on_error(it);
  }
  // Stops files that would decode for hours.
  static void on_progress(j_common_ptr it) {
    constexpr int most_scans = 500;
    JpegReader& reader = self(it);
    if (reader.it_.input_scan_number <= most_scans) return;
    std::strncpy(reader.message_, "more than 500 scans", sizeof(reader.message_) - 1);
    longjmp(reader.jump_, 1);  // NOLINT
  }
  [[nodiscard]] Region reduced(const Region& region, std::int64_t by) const {
    const auto end = [&](std::int64_t at) { return (at + by - 1) / by; };
    const std::int64_t top = region.top / by, left = region.left / by;
    return {top, left, std::min(end(region.top + region.height), size_.height) - top,
            std::min(end(region.left + region.width), size_.width) - left};
  }

  std::span<const std::byte> bytes_;
  jpeg_decompress_struct it_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  jmp_buf jump_{};
  char message_[JMSG_LENGTH_MAX] = {};
  ImageSize size_;
  Region window_;
};

// Four-colour JPEGs store inverted inks (Adobe), so a channel is its ink times black.
Pixels from_cmyk(const Pixels& inks) {
  const auto count = static_cast<std::size_t>(inks.height * inks.width);
  Pixels image{inks.height, inks.width, 3, std::vector<std::uint8_t>(count * 3)};
  for (std::size_t i = 0; i < count; ++i) {
    const unsigned black = inks.data[4 * i + 3];
    for (std::size_t c = 0; c < 3; ++c) {
      image.data[3 * i + c] =
          static_cast<std::uint8_t>((inks.data[4 * i + c] * black + 127U) / 255U);
    }
  }
  return image;
}

}  // namespace

DecodedPart decode_jpeg(std::span<const std::byte> bytes, std::uint64_t max_pixels,
                        const ChoosePart& choose) {
  JpegReader reader(bytes);
  if (!reader.read_header()) refuse_image("JPEG", reader.message());
  check_pixel_count(reader.full_size(), max_pixels);
  if (!reader.has_end()) refuse_image("JPEG", "its end is missing");
  const PartWanted wanted = choose(reader.full_size());
  if (!reader.start(wanted)) refuse_image("JPEG", reader.message());
  const Region& window = reader.window();
  DecodedPart part{.pixels = {window.height, window.width, reader.components(), {}},
                   .top = window.top,
                   .left = window.left,
                   .reduction = wanted.reduction,
                   .size = reader.size()};
  part.pixels.data.resize(reader.row_bytes() * static_cast<std::size_t>(window.height));
  if (!reader.read_rows(part.pixels.data.data())) refuse_image("JPEG", reader.message());
  if (reader.is_inked()) part.pixels = from_cmyk(part.pixels);
  return part;
}

}  // namespace trireme
