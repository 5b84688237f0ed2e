// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/gemm/newton_schulz.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

TRIREME_KERNELS(load_matrices, store_matrices, newton_schulz_gram, newton_schulz_polynomial);

namespace {

// x is in the parameter's storage, y the matrices for the iteration.
void check_blocks(const Operands& check, const Tensor& y, const Tensor& x,
                  const MatrixBlocks& blocks) {
  check.present("x", x);
  check.dtype("x", x, DType::f32);
  check.present("y", y);
  check.compute_dtype("y", y);
  check.shape("y", y,
              blocks.transposed ? Shape{blocks.count, blocks.columns, blocks.rows}
                                : Shape{blocks.count, blocks.rows, blocks.columns});
  check.disjoint("y", y, "x", x);
  TRIREME_EXPECTS((blocks.count - 1) * blocks.stride + blocks.rows * blocks.columns <= x.count(),
                  "{} matrices {} x {}, one every {} elements, do not lie in {}", blocks.count,
                  blocks.rows, blocks.columns, blocks.stride, x.shape.to_string());
}

void check_square(const Operands& check, std::string_view name, const Tensor& g, DType dtype,
                  std::int64_t side) {
  check.is(name, g, dtype, Shape{side, side});
}

// Their bytes in f32.
double bytes_of(const MatrixBlocks& blocks) {
  return static_cast<double>(blocks.count * blocks.rows * blocks.columns) * sizeof(float);
}

}  // namespace

void load_matrices(Stream& stream, const Tensor& y, const Tensor& x, const MatrixBlocks& blocks) {
  check_blocks(Operands("load_matrices"), y, x, blocks);
  TRIREME_DISPATCH(stream, load_matrices, writes(y).bytes(bytes_of(blocks), 0), y, x, blocks);
}

void store_matrices(Stream& stream, const Tensor& x, const Tensor& y, const MatrixBlocks& blocks,
                    float factor) {
  check_blocks(Operands("store_matrices"), y, x, blocks);
  TRIREME_DISPATCH(stream, store_matrices, reads(y).bytes(0, bytes_of(blocks)), x, y, blocks,
                   factor);
}

void newton_schulz_gram(Stream& stream, const Tensor& g, const Tensor& scale, const Tensor& gram,
                        bool normalize) {
  const Operands check("newton_schulz_gram");
  check.rank("gram", gram, 2);
  check_square(check, "gram", gram, DType::f32, gram.shape[0]);
  check.compute_dtype("g", g);
  check_square(check, "g", g, g.dtype, gram.shape[0]);
  check.is("scale", scale, DType::f32, Shape{1});
  check.disjoint("g", g, "gram", gram);
  TRIREME_DISPATCH(stream, newton_schulz_gram, reads(gram).writes(g, scale).kernels(2), g, scale,
                   gram, normalize);
}

void newton_schulz_polynomial(Stream& stream, const Tensor& p, const Tensor& g, const Tensor& g2,
                              const Tensor& scale) {
  const Operands check("newton_schulz_polynomial");
  check.rank("g", g, 2);
  check.compute_dtype("g", g);
  check_square(check, "g", g, g.dtype, g.shape[0]);
  check_square(check, "g2", g2, g.dtype, g.shape[0]);
  check_square(check, "p", p, g.dtype, g.shape[0]);
  check.is("scale", scale, DType::f32, Shape{1});
  check.disjoint("p", p, "g", g);
  check.disjoint("p", p, "g2", g2);
  TRIREME_DISPATCH(stream, newton_schulz_polynomial, reads(g, g2, scale).writes(p), p, g, g2,
                   scale);
}

}  // namespace trireme::ops
