// SPDX-License-Identifier: Apache-2.0
// JPEG and PNG to pixels: all of an image, or the part that is needed at the size that is needed.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "data/images/pixels.h"
#include "runtime/base/error.h"

namespace trireme {

// An image that does not decode, or claims more pixels than allowed: the reason alone, without its
// name, but for decode_image().
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

// Rows and columns of an image at its full size, which it holds.
struct Region {
  std::int64_t top = 0, left = 0, height = 0, width = 0;
  friend bool operator==(const Region&, const Region&) = default;
};

// What is to be decoded of an image. JPEGs can come at 1/2, 1/4 and 1/8 of their sides for less
// work: the inverse DCT of a block then gives fewer pixels, each the mean of what it stands for.
struct PartWanted {
  Region region;
  std::int64_t reduction = 1;  // 1, 2, 4 or 8
};

// The pixels of a window that holds the region wanted, perhaps more.
struct DecodedPart {
  Pixels pixels;
  std::int64_t top = 0, left = 0;  // of the window, in the image reduced to `size`
  std::int64_t reduction = 1;      // at most the wanted one
  ImageSize size;                  // ceil(side / reduction)
};

// Decodes `bytes`, JPEG or PNG by content, to 1 or 3 channels. Pixels are those of Pillow's
// `Image.open(file).convert("RGB")` (or "L"): transparency, gamma, colour profiles and EXIF
// orientation are not applied; 16 bits keep their high byte (where Pillow clips grey). Raises
// DamagedImage when the data is neither, is damaged in any way that the decoder notices (wrong
// checksum, missing end, warnings), or has more than `max_pixels` pixels, which is found before
// memory is taken for them. `name` stands in front of the reason.
[[nodiscard]] Pixels decode_image(std::span<const std::byte> bytes, std::int64_t channels,
                                  std::uint64_t max_pixels, const std::string& name);

// The part that `choose`, called once, names of an image of the given size, with the same pixels as
// where all of it is decoded at that reduction. What lies behind the part is not looked at, but for
// the end of a JPEG, which must be there; of a PNG all of it is decoded, at its full size.
using ChoosePart = std::function<PartWanted(const ImageSize&)>;
[[nodiscard]] DecodedPart decode_part(std::span<const std::byte> bytes, std::int64_t channels,
                                      std::uint64_t max_pixels, const ChoosePart& choose);

// Its parts; pixels have the channels of the file, 1 or 3.
[[nodiscard]] DecodedPart decode_jpeg(std::span<const std::byte> bytes, std::uint64_t max_pixels,
                                      const ChoosePart& choose);
[[nodiscard]] Pixels decode_png(std::span<const std::byte> bytes, std::uint64_t max_pixels);
[[noreturn]] void refuse_image(std::string_view format, std::string_view reason);
// Raises DamagedImage for more than `max_pixels`.
void check_pixel_count(const ImageSize& size, std::uint64_t max_pixels);

}  // namespace trireme
