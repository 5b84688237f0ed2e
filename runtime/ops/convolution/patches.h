// SPDX-License-Identifier: Apache-2.0
// Data movement of a vision transformer before its first product and after its last block: images
// cut into patches, and the first or last row of each sample. Copies values only. f32, bf16 or f16.
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

// y(B, before + P, size * size * C) from images(B, H, W, C): row `before` + i of a sample is patch
// i in reading order, with pixels in reading order and channels innermost; the first `before` rows
// are zero. `size` divides H and W; P = H * W / size^2. A product of the rows is then a convolution
// whose stride is its window size.
void cut_patches(Stream& stream, const Tensor& y, const Tensor& images, std::int64_t size,
                 std::int64_t before);

// Which row of a sample: its first, or the last of its first document.
enum class EdgeRow : std::uint8_t { first, last };

// y(B, C) = this row of each sample of x(B, T, C). document_starts (B, T) i32, as in attention.h;
// absent: samples are one document.
void edge_rows_forward(Stream& stream, const Tensor& y, const Tensor& x, EdgeRow edge,
                       const Tensor& document_starts = {});
// dx(B, T, C) is overwritten: dy(B, C) in these rows, else zero.
void edge_rows_backward(Stream& stream, const Tensor& dx, const Tensor& dy, EdgeRow edge,
                        const Tensor& document_starts = {});

}  // namespace trireme::ops
