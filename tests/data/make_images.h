// SPDX-License-Identifier: Apache-2.0
// Small images, as pixels and as files.
#pragma once

#include <gtest/gtest.h>
#include <png.h>
#include <turbojpeg.h>
#include <zlib.h>

#include <cstdint>
#include <string>
#include <vector>

#include "data/pack/images/image_source.h"

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

inline std::string jpeg_of(const Pixels& image) {
  const tjhandle handle = tjInitCompress();
  unsigned char* out = nullptr;
  unsigned long size = 0;
  EXPECT_EQ(tjCompress2(handle, image.data.data(), static_cast<int>(image.width), 0,
                        static_cast<int>(image.height), image.channels == 1 ? TJPF_GRAY : TJPF_RGB,
                        &out, &size, image.channels == 1 ? TJSAMP_GRAY : TJSAMP_444, 98, 0),
            0);
  std::string bytes(reinterpret_cast<char*>(out), size);
  tjFree(out);
  tjDestroy(handle);
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

// A PNG of any kind. `rows` are as the format has them: a filter byte of 0, then packed samples;
// `chunks` stand before the data.
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
