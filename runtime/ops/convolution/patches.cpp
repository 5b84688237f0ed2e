// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/convolution/patches.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

TRIREME_KERNELS(cut_patches, edge_rows_forward, edge_rows_backward);

namespace {

// narrow(B, C) and wide(B, T, C).
void check_edge_rows(const Operands& check, std::string_view narrow_name, const Tensor& narrow,
                     std::string_view wide_name, const Tensor& wide, const Tensor& starts) {
  check.compute_dtype(wide_name, wide);
  check.rank(wide_name, wide, 3);
  check.is(narrow_name, narrow, wide.dtype, Shape{wide.shape[0], wide.shape[2]});
  check.disjoint(narrow_name, narrow, wide_name, wide);
  if (!starts.empty())
    check.is("document_starts", starts, DType::i32, Shape{wide.shape[0], wide.shape[1]});
}

}  // namespace

void cut_patches(Stream& stream, const Tensor& y, const Tensor& images, std::int64_t size,
                 std::int64_t before) {
  const Operands check("cut_patches");
  check.compute_dtype("images", images);
  check.rank("images", images, 4);
  const Shape& x = images.shape;
  TRIREME_EXPECTS(size >= 1 && x[1] % size == 0 && x[2] % size == 0 && before >= 0,
                  "cut_patches: patches of {} pixels from images {}, behind {} rows", size,
                  x.to_string(), before);
  check.is("y", y, images.dtype,
           Shape{x[0], before + (x[1] / size) * (x[2] / size), size * size * x[3]});
  check.disjoint("y", y, "images", images);
  TRIREME_DISPATCH(stream, cut_patches, reads(images).writes(y), y, images, size, before);
}

void edge_rows_forward(Stream& stream, const Tensor& y, const Tensor& x, EdgeRow edge,
                       const Tensor& document_starts) {
  check_edge_rows(Operands("edge_rows_forward"), "y", y, "x", x, document_starts);
  TRIREME_DISPATCH(stream, edge_rows_forward, reads(y, document_starts).writes(y), y, x, edge,
                   document_starts);
}

void edge_rows_backward(Stream& stream, const Tensor& dx, const Tensor& dy, EdgeRow edge,
                        const Tensor& document_starts) {
  check_edge_rows(Operands("edge_rows_backward"), "dy", dy, "dx", dx, document_starts);
  TRIREME_DISPATCH(stream, edge_rows_backward, reads(dy, document_starts).writes(dx), dx, dy, edge,
                   document_starts);
}

}  // namespace trireme::ops
