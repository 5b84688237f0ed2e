// SPDX-License-Identifier: Apache-2.0
// Decodes JPEG and PNG: a whole image, or the needed part at the needed size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/error.h"

namespace trireme {

// Rows top to bottom, channels interleaved.
struct Pixels {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;  // 1 or 3
  std::vector<std::uint8_t> data;
};

// Grey to RGB by repetition; RGB to grey by ITU-R BT.601 luma weights.
[[nodiscard]] Pixels with_channels(Pixels image, std::int64_t channels);

// An image that cannot be decoded or has more pixels than allowed. The message is only the reason,
// without the image's name, except from decode_image().
class DamagedImage : public Error {
 public:
  explicit DamagedImage(const std::string& message, bool too_large = false)
      : Error(ExitCode::data, message), too_large_(too_large) {}
  [[nodiscard]] bool too_large() const { return too_large_; }

 private:
  bool too_large_;
};

struct ImageSize {
  std::int64_t height = 0, width = 0;
};

// Rows and columns inside an image, at full size.
struct Region {
  std::int64_t top = 0, left = 0, height = 0, width = 0;
  friend bool operator==(const Region&, const Region&) = default;
};

// The part of an image to decode. JPEGs can be decoded at 1/2, 1/4 and 1/8 of their sides for less
// work: the inverse DCT of a block then yields fewer pixels, each the mean of those it replaces.
struct PartWanted {
  Region region;
  std::int64_t reduction = 1;  // 1, 2, 4 or 8
};

// The pixels of a window that contains the wanted region.
struct DecodedPart {
  Pixels pixels;
  std::int64_t top = 0, left = 0;  // of the window, in the image at `size`
  std::int64_t reduction = 1;      // at most the requested one
  ImageSize size;                  // ceil(side / reduction)
};

// Decodes `bytes`, JPEG or PNG by content, to 1 or 3 channels. Pixels equal those of Pillow's
// `Image.open(file).convert("RGB")` (or "L"): transparency, gamma, colour profiles and EXIF
// orientation are ignored; 16-bit values keep their high byte (where Pillow clips grey). Raises
// DamagedImage if the data is neither, if the decoder notices any damage (wrong checksum, missing
// end, warnings), or if it has more than `max_pixels` pixels, which is checked before memory is
// allocated. `name` prefixes the reason.
[[nodiscard]] Pixels decode_image(std::span<const std::byte> bytes, std::int64_t channels,
                                  std::uint64_t max_pixels, const std::string& name);

// Decodes the part that `choose` (called once with the image's size) returns, with the same pixels
// as a complete decode at that reduction. Data after the part is not checked, except for the end of
// a JPEG, which must exist; a PNG is always decoded completely, at full size.
using ChoosePart = std::function<PartWanted(const ImageSize&)>;
[[nodiscard]] DecodedPart decode_part(std::span<const std::byte> bytes, std::int64_t channels,
                                      std::uint64_t max_pixels, const ChoosePart& choose);

// The two decoders; pixels have the file's channels, 1 or 3.
[[nodiscard]] DecodedPart decode_jpeg(std::span<const std::byte> bytes, std::uint64_t max_pixels,
                                      const ChoosePart& choose);
[[nodiscard]] Pixels decode_png(std::span<const std::byte> bytes, std::uint64_t max_pixels);
[[noreturn]] void refuse_image(std::string_view format, std::string_view reason);
// Raises DamagedImage for more than `max_pixels`.
void check_pixel_count(const ImageSize& size, std::uint64_t max_pixels);

}  // namespace trireme
