// SPDX-License-Identifier: Apache-2.0
// Small images, as pixels and as files.
#pragma once

#include <gtest/gtest.h>
#include <png.h>
#include <zlib.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <jpeglib.h>

#include "data/images/decode.h"

namespace trireme::test {

inline Pixels pattern(std::int64_t height, std::int64_t width, std::int64_t channels, int seed) {
  Pixels image{height, width, channels, {}};
  for (std::int64_t i = 0; i < height * width * channels; ++i) {
    image.data.push_back(static_cast<std::uint8_t>((i * 7 + seed * 31) % 256));
  }
  return image;
}

inline std::string png_of(const Pixels& image) {
  png_image head{};
  head.version = PNG_IMAGE_VERSION;
  head.width = static_cast<png_uint_32>(image.width);
  head.height = static_cast<png_uint_32>(image.height);
  head.format = image.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t size = 0;
  png_image_write_to_memory(&head, nullptr, &size, 0, image.data.data(), 0, nullptr);
  std::string bytes(size, '\0');
  EXPECT_NE(png_image_write_to_memory(&head, bytes.data(), &size, 0, image.data.data(), 0, nullptr),
            0);
  bytes.resize(size);
  return bytes;
}

struct JpegKind {
  int horizontal = 1, vertical = 1;  // how many pixels share a chroma sample, each way
  bool progressive = false;
  int quality = 98;
};

inline std::string jpeg_of(const Pixels& image, const JpegKind& kind = {}) {
  jpeg_compress_struct it{};
  jpeg_error_mgr errors{};
  it.err = jpeg_std_error(&errors);
  jpeg_create_compress(&it);
  unsigned char* out = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&it, &out, &size);
  it.image_width = static_cast<JDIMENSION>(image.width);
  it.image_height = static_cast<JDIMENSION>(image.height);
  it.input_components = static_cast<int>(image.channels);
  it.in_color_space = image.channels == 1   ? JCS_GRAYSCALE
                      : image.channels == 3 ? JCS_RGB
                                            : JCS_CMYK;
  jpeg_set_defaults(&it);
  jpeg_set_quality(&it, kind.quality, TRUE);
  it.comp_info[0].h_samp_factor = kind.horizontal;
  it.comp_info[0].v_samp_factor = kind.vertical;
  if (kind.progressive) jpeg_simple_progression(&it);
  jpeg_start_compress(&it, TRUE);
  while (it.next_scanline < it.image_height) {
    const auto* row = image.data.data() + it.next_scanline * image.width * image.channels;
    auto* rows = const_cast<JSAMPROW>(row);
    jpeg_write_scanlines(&it, &rows, 1);
  }
  jpeg_finish_compress(&it);
  std::string bytes(reinterpret_cast<char*>(out), size);
  std::free(out);
  jpeg_destroy_compress(&it);
  return bytes;
}

inline std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8)
    bytes.push_back(static_cast<char>(value >> shift));
  return bytes;
}

inline std::string png_chunk(const std::string& kind, const std::string& data) {
  const std::string checked = kind + data;
  const auto sum =
      crc32(0, reinterpret_cast<const Bytef*>(checked.data()), static_cast<uInt>(checked.size()));
  return big_endian(static_cast<std::uint32_t>(data.size())) + checked +
         big_endian(static_cast<std::uint32_t>(sum));
}

// A PNG of any kind. `rows` are in the format's layout: a filter byte of 0, then packed samples;
// `chunks` precede the data.
inline std::string raw_png(std::uint32_t width, std::uint32_t height, char depth, char colour_type,
                           const std::string& rows, const std::string& chunks = {},
                           bool interlaced = false) {
  uLongf size = compressBound(static_cast<uLong>(rows.size()));
  std::string packed(size, '\0');
  EXPECT_EQ(compress(reinterpret_cast<Bytef*>(packed.data()), &size,
                     reinterpret_cast<const Bytef*>(rows.data()), static_cast<uLong>(rows.size())),
            Z_OK);
  packed.resize(size);
  const std::string header = big_endian(width) + big_endian(height) + depth + colour_type +
                             std::string(2, '\0') + (interlaced ? '\1' : '\0');
  return "\x89PNG\r\n\x1a\n" + png_chunk("IHDR", header) + chunks + png_chunk("IDAT", packed) +
         png_chunk("IEND", "");
}

}  // namespace trireme::test
