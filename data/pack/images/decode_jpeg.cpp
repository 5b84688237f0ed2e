// SPDX-License-Identifier: Apache-2.0
#include <turbojpeg.h>

#include <memory>

#include "data/pack/images/decode.h"
#include "data/pack/images/pixels.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

struct CloseHandle {
  void operator()(void* handle) const { tjDestroy(handle); }
};

[[noreturn]] void refuse(const std::string& name, tjhandle handle) {
  fail(ExitCode::data, "{}: damaged JPEG: {}; replace it or drop it with --skip-bad", name,
       tjGetErrorStr2(handle));
}

// Four-colour JPEGs store inverted inks (Adobe), so a channel is its ink times black.
Pixels from_cmyk(const std::vector<std::uint8_t>& inks, std::int64_t height, std::int64_t width) {
  const auto count = static_cast<std::size_t>(height * width);
  Pixels image{height, width, 3, std::vector<std::uint8_t>(count * 3)};
  for (std::size_t i = 0; i < count; ++i) {
    const unsigned black = inks[4 * i + 3];
    for (std::size_t c = 0; c < 3; ++c) {
      image.data[3 * i + c] = static_cast<std::uint8_t>((inks[4 * i + c] * black + 127U) / 255U);
    }
  }
  return image;
}

}  // namespace

Pixels decode_jpeg(std::span<const std::byte> bytes, std::int64_t channels,
                   std::uint64_t max_pixels, const std::string& name) {
  const std::unique_ptr<void, CloseHandle> handle(tjInitDecompress());
  if (!handle) library_failed("tjInitDecompress", tjGetErrorStr2(nullptr));
  const auto* const data = reinterpret_cast<const unsigned char*>(bytes.data());
  const auto size = static_cast<unsigned long>(bytes.size());
  int width = 0, height = 0, subsampling = 0, colours = 0;
  if (tjDecompressHeader3(handle.get(), data, size, &width, &height, &subsampling, &colours) != 0) {
    refuse(name, handle.get());
  }
  check_pixel_count(width, height, max_pixels, name);
  const bool inks = colours == TJCS_CMYK || colours == TJCS_YCCK;
  // Colours become grey by with_channels, as those of PNGs do; the luma channel rounds otherwise.
  const int format = inks ? TJPF_CMYK : colours == TJCS_GRAY ? TJPF_GRAY : TJPF_RGB;
  std::vector<std::uint8_t> out(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) *
                                static_cast<std::size_t>(tjPixelSize[format]));
  // A warning (a missing end, corrupt entropy data) fails, too. The scan limit stops files that
  // decode for hours.
  if (tjDecompress2(handle.get(), data, size, out.data(), width, 0, height, format,
                    TJFLAG_ACCURATEDCT | TJFLAG_LIMITSCANS) != 0) {
    refuse(name, handle.get());
  }
  if (inks) return with_channels(from_cmyk(out, height, width), channels);
  return with_channels({height, width, tjPixelSize[format], std::move(out)}, channels);
}

}  // namespace trireme
