// SPDX-License-Identifier: Apache-2.0
// JPEG and PNG to pixels.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "data/pack/images/image_source.h"

namespace trireme {

// Decodes `bytes`, JPEG or PNG by content, to 1 or 3 channels. Pixels are
// those of Pillow's `Image.open(file).convert("RGB")` (or "L"): transparency, gamma, colour
// profiles and EXIF orientation are not applied; 16 bits keep their high byte (where Pillow clips
// grey). Raises ExitCode::data naming `name` when the data is neither, is damaged in any way that
// the decoder notices (wrong checksum, missing end, warnings), or has more than `max_pixels`
// pixels, which is found before memory is taken for them.
[[nodiscard]] Pixels decode_image(std::span<const std::byte> bytes, std::int64_t channels,
                                  std::uint64_t max_pixels, const std::string& name);

// Its parts.
[[nodiscard]] Pixels decode_jpeg(std::span<const std::byte> bytes, std::int64_t channels,
                                 std::uint64_t max_pixels, const std::string& name);
[[nodiscard]] Pixels decode_png(std::span<const std::byte> bytes, std::int64_t channels,
                                std::uint64_t max_pixels, const std::string& name);
// Raises ExitCode::data for more than `max_pixels`.
void check_pixel_count(std::int64_t width, std::int64_t height, std::uint64_t max_pixels,
                       const std::string& name);

}  // namespace trireme
