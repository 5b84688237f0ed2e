// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace trireme {

// A PNG file of bytes (height, width, channels), 1 or 3 channels. Raises ExitCode::internal.
[[nodiscard]] std::string png_of(std::span<const std::byte> pixels, std::int64_t height,
                                 std::int64_t width, std::int64_t channels);

}  // namespace trireme
