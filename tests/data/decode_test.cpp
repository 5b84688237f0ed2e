// SPDX-License-Identifier: Apache-2.0
// The kinds of images by hand, each with the pixels that Pillow gives;
// tests/checks/check_images.py compares many more with Pillow itself.
#include "data/images/decode.h"

#include <gtest/gtest.h>

#include "data/images/resample.h"
#include "runtime/base/philox.h"
#include "tests/data/make_images.h"
#include "tests/support/expect_error.h"

namespace trireme {
namespace {

using test::big_endian;
using test::expect_error;
using test::jpeg_of;
using test::pattern;
using test::png_chunk;
using test::png_of;
using test::raw_png;

std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

using Values = std::vector<int>;

constexpr char grey = 0, rgb = 2, palette = 3, grey_alpha = 4, rgba = 6;

std::string bytes(const Values& values) {
  std::string text;
  for (const int value : values)
    text.push_back(static_cast<char>(value));
  return text;
}

Values decoded(const std::string& file, std::int64_t channels) {
  const Pixels image = decode_image(as_bytes(file), channels, 1000, "x.png");
  return {image.data.begin(), image.data.end()};
}

TEST(Png, SixteenBitsKeepTheirHighByte) {
  // 40000 = 156 * 256 + 64, 300, 65535
  const std::string row = bytes({0, 0x9c, 0x40, 0x01, 0x2c, 0xff, 0xff});
  EXPECT_EQ(decoded(raw_png(3, 1, 16, grey, row), 1), (Values{156, 1, 255}));
  EXPECT_EQ(decoded(raw_png(1, 1, 16, rgb, row), 3), (Values{156, 1, 255}));
  EXPECT_EQ(decoded(raw_png(1, 1, 16, rgba, row + bytes({0, 1})), 3), (Values{156, 1, 255}));
}

TEST(Png, GammaAndProfilesDoNotChangePixels) {
  const std::string row = bytes({0, 100, 101});
  for (const std::string& chunk :
       {png_chunk("gAMA", big_endian(100000)), png_chunk("gAMA", big_endian(45455)),
        png_chunk("sRGB", bytes({0})), png_chunk("iCCP", "broken profile"),
        png_chunk("sBIT", bytes({5})), png_chunk("bKGD", bytes({0, 7}))}) {
    EXPECT_EQ(decoded(raw_png(2, 1, 8, grey, row, chunk), 1), (Values{100, 101}));
  }
}

TEST(Png, TransparencyIsNotApplied) {
  EXPECT_EQ(decoded(raw_png(2, 1, 8, grey_alpha, bytes({0, 100, 0, 200, 128})), 1),
            (Values{100, 200}));
  EXPECT_EQ(decoded(raw_png(1, 1, 8, rgba, bytes({0, 10, 20, 30, 0})), 3), (Values{10, 20, 30}));
  EXPECT_EQ(decoded(raw_png(1, 1, 8, rgb, bytes({0, 10, 20, 30}),
                            png_chunk("tRNS", bytes({0, 10, 0, 20, 0, 30}))),
                    3),
            (Values{10, 20, 30}));
}

TEST(Png, FewBitsSpreadOverTheWholeRange) {
  EXPECT_EQ(decoded(raw_png(4, 1, 1, grey, bytes({0, 0b10100000})), 1), (Values{255, 0, 255, 0}));
  EXPECT_EQ(decoded(raw_png(4, 1, 2, grey, bytes({0, 0b00011011})), 1), (Values{0, 85, 170, 255}));
  EXPECT_EQ(decoded(raw_png(2, 1, 4, grey, bytes({0, 0x2f})), 1), (Values{34, 255}));
}

TEST(Png, PaletteGivesColoursAndRefusesIndicesBeyondIt) {
  const std::string colours =
      png_chunk("PLTE", bytes({255, 0, 0, 10, 20, 30})) + png_chunk("tRNS", bytes({0, 128}));
  EXPECT_EQ(decoded(raw_png(2, 1, 8, palette, bytes({0, 1, 0}), colours), 3),
            (Values{10, 20, 30, 255, 0, 0}));
  EXPECT_EQ(decoded(raw_png(2, 1, 1, palette, bytes({0, 0b01000000}), colours), 1),
            (Values{76, 18}));
  expect_error(
      ExitCode::data,
      [&] {
        static_cast<void>(decoded(raw_png(1, 1, 8, palette, bytes({0, 2}), colours), 3));
      },
      "x.png", "palette");
}

TEST(Png, InterlacedImagesAreWhole) {
  // Adam7 of 2 x 2: one pixel each in passes 1 and 6, a row in pass 7.
  EXPECT_EQ(decoded(raw_png(2, 2, 8, grey, bytes({0, 1, 0, 2, 0, 3, 4}), "", true), 1),
            (Values{1, 2, 3, 4}));
}

TEST(Jpeg, GreyOfAColouredImageIsItsLuma) {
  const std::string file = jpeg_of(pattern(16, 16, 3, 1));
  const Pixels coloured = decode_image(as_bytes(file), 3, 1000, "x");
  EXPECT_EQ(decode_image(as_bytes(file), 1, 1000, "x").data, with_channels(coloured, 1).data);
}

// Random pixels: each identifies its place.
Pixels noise(std::int64_t height, std::int64_t width, std::int64_t channels) {
  Pixels image{height, width, channels, {}};
  const Philox random = Philox::keyed(7, RandomPurpose::test);
  for (std::int64_t i = 0; i < height * width * channels; ++i)
    image.data.push_back(static_cast<std::uint8_t>(random(0, static_cast<std::uint64_t>(i))[0]));
  return image;
}

// The pixels of `region` at 1 / by, out of a part and of the whole.
void expect_same_pixels(const DecodedPart& part, const DecodedPart& whole, const Region& region) {
  const std::int64_t by = part.reduction, channels = part.pixels.channels;
  for (std::int64_t y = region.top / by; y * by < region.top + region.height; ++y) {
    for (std::int64_t x = region.left / by; x * by < region.left + region.width; ++x) {
      for (std::int64_t c = 0; c < channels; ++c) {
        const auto at = [&](const DecodedPart& of) {
          return int{of.pixels.data.at(static_cast<std::size_t>(
              ((y - of.top) * of.pixels.width + x - of.left) * channels + c))};
        };
        ASSERT_EQ(at(part), at(whole)) << "row " << y << ", column " << x << " at 1/" << by;
      }
    }
  }
}

TEST(Jpeg, PartsHaveThePixelsOfTheWhole) {
  constexpr std::int64_t height = 97, width = 131;
  for (const test::JpegKind& kind :
       {test::JpegKind{1, 1}, test::JpegKind{2, 1}, test::JpegKind{1, 2}, test::JpegKind{2, 2},
        test::JpegKind{4, 1}, test::JpegKind{2, 2, true}, test::JpegKind{2, 1, true}}) {
    for (const std::int64_t channels : {1, 3, 4}) {
      const std::string file = jpeg_of(noise(height, width, channels), kind);
      for (const std::int64_t by : {1, 2, 4, 8}) {
        const auto part_of = [&](const Region& region) {
          return decode_part(as_bytes(file), 3, 1 << 20, [&](const ImageSize&) {
            return PartWanted{region, by};
          });
        };
        const DecodedPart whole = part_of({0, 0, height, width});
        for (const Region& region :
             {Region{0, 0, 40, 50}, Region{33, 47, 20, 30}, Region{1, 1, 95, 129},
              Region{80, 100, 17, 31}, Region{50, 0, 1, 131}, Region{0, 64, 97, 1}}) {
          SCOPED_TRACE(fmt::format("{} x {} samples, {} channels, part at {}, {}", kind.horizontal,
                                   kind.vertical, channels, region.top, region.left));
          expect_same_pixels(part_of(region), whole, region);
        }
      }
    }
  }
}

TEST(Jpeg, AMissingEndIsFoundAlthoughUnneeded) {
  const std::string file = jpeg_of(pattern(64, 64, 3, 1));
  const auto top = [&](const std::string& bytes) {
    static_cast<void>(decode_part(as_bytes(bytes), 3, 1 << 20, [](const ImageSize&) {
      return PartWanted{{0, 0, 8, 8}, 1};
    }));
  };
  top(file);
  top(file + std::string(100, '\0'));  // padding
  expect_error(
      ExitCode::data, [&] { top(file.substr(0, file.size() - 2)); }, "its end is missing");
}

TEST(Decode, RefusesBombsBeforeTakingMemory) {
  std::string png = png_of(pattern(4, 4, 1, 1));
  expect_error(
      ExitCode::data, [&] { static_cast<void>(decode_image(as_bytes(png), 1, 15, "bomb.png")); },
      "bomb.png", "4 x 4 pixels", "the limit of 15");
  // Header of 65000 x 65000, with its checksum corrected.
  png.replace(16, 8, big_endian(65000) + big_endian(65000));
  png.replace(29, 4,
              big_endian(static_cast<std::uint32_t>(
                  crc32(0, reinterpret_cast<const Bytef*>(png.data()) + 12, 17))));
  expect_error(
      ExitCode::data,
      [&] { static_cast<void>(decode_image(as_bytes(png), 1, 1U << 27, "bomb.png")); },
      "65000 x 65000");
}

TEST(Decode, FindsEveryFlippedBitOfAPng) {
  const std::string png = png_of(pattern(9, 7, 3, 1));
  const Pixels good = decode_image(as_bytes(png), 3, 1000, "x");
  for (std::size_t at = 0; at < png.size(); ++at) {
    std::string bytes = png;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << (at % 8)));
    try {
      EXPECT_EQ(decode_image(as_bytes(bytes), 3, 1000, "x").data, good.data) << "byte " << at;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::data);
    }
  }
}

TEST(Decode, SurvivesEveryTruncationAndDamageOfAJpeg) {
  const std::string jpeg = jpeg_of(pattern(9, 7, 3, 1));
  for (std::size_t at = 0; at < jpeg.size(); ++at) {
    expect_error(
        ExitCode::data,
        [&] { static_cast<void>(decode_image(as_bytes(jpeg.substr(0, at)), 3, 1000, "x")); },
        "x: ");
    std::string bytes = jpeg;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << (at % 8)));
    try {
      static_cast<void>(decode_image(as_bytes(bytes), 3, 1000, "x"));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::data);
    }
  }
}

TEST(Pixels, ConvertBetweenGreyAndColour) {
  const Pixels grey = pattern(3, 5, 1, 1);
  EXPECT_EQ(with_channels(with_channels(grey, 3), 1).data, grey.data);
  const Pixels primary{1, 3, 3, {255, 0, 0, 0, 255, 0, 0, 0, 255}};
  EXPECT_EQ(with_channels(primary, 1).data, (std::vector<std::uint8_t>{76, 150, 29}));
}

TEST(Pixels, ResizeKeepsFlatAreasAndItsOwnSize) {
  const Pixels flat{7, 13, 3, std::vector<std::uint8_t>(7 * 13 * 3, 200)};
  for (const std::int64_t size : {1, 2, 5, 7, 20}) {
    const Pixels out = resize_and_crop(flat, size);
    EXPECT_EQ(out.height, size);
    EXPECT_EQ(out.width, size);
    EXPECT_EQ(out.data, std::vector<std::uint8_t>(static_cast<std::size_t>(size * size * 3), 200));
  }
  const Pixels square = pattern(6, 6, 3, 2);
  EXPECT_EQ(resize_and_crop(square, 6).data, square.data);
}

TEST(Pixels, ShrinkingAveragesAndCropsTheCentre) {
  // Columns 0 and 5 are outside the centre; each output pixel is a weighted mean of its
  // neighbourhood.
  const Pixels wide{2, 6, 1, {255, 10, 10, 30, 30, 255, 255, 10, 10, 30, 30, 255}};
  EXPECT_EQ(resize_and_crop(wide, 2).data, (std::vector<std::uint8_t>{10, 30, 10, 30}));
  const Pixels checkers{4, 4, 1, {0, 255, 0, 255, 255, 0, 255, 0, 0, 255, 0, 255, 255, 0, 255, 0}};
  for (const std::uint8_t level : resize_and_crop(checkers, 1).data)
    EXPECT_NEAR(level, 127, 2);
}

}  // namespace
}  // namespace trireme
