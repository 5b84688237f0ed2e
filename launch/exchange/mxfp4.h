// SPDX-License-Identifier: Apache-2.0
// Weights of experts in MXFP4 (OCP Microscaling Formats, 2023), as in gpt-oss's files: a tensor
// NAME (E, 32 G, R) is there as NAME_blocks (E, R, G, 16) u8, two values in each byte, the first in
// the low half, and NAME_scales (E, R, G) u8, the exponents of powers of two.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/shape.h"

namespace trireme {

struct Mxfp4Shapes {
  Shape blocks, scales;
};
// For a tensor (E, 32 G, R); of other shapes they are empty.
[[nodiscard]] Mxfp4Shapes mxfp4_shapes(const Shape& shape);

// The values (E, 32 G, R), exactly. Raises ExitCode::checkpoint with `name` for a scale of NaN.
[[nodiscard]] std::vector<float> decode_mxfp4(const std::string& name,
                                              std::span<const std::uint8_t> blocks,
                                              std::span<const std::uint8_t> scales,
                                              const Shape& shape);

}  // namespace trireme
