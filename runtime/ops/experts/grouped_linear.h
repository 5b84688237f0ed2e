// SPDX-License-Identifier: Apache-2.0
// Matmuls of runs of rows, each with its own matrix: the linear layers of experts. offsets(G + 1)
// i32, on the device: group g has rows [offsets[g], offsets[g + 1]), possibly none, and uses matrix
// g % X of w(X, O, I). Tensors of rows may have more rows than offsets[G]; those are neither read
// nor written. Weights are (out, in). x, w, y, dy, dx share a compute dtype; biases, dw, db are
// f32. f32 sums.
//
// Bits: a result depends on its own row (and matrix) alone, never on how many rows there are or on
// their group. On a CPU each is one chain of fused multiply-adds along the common axis, except
// bf16 and F32Products::parts where the processor has tiles for bf16 (AMX); on GPUs 16 bits run on
// tensor cores.
//
// A weight gradient depends on the rows of its matrix in the call, one list in the order of their
// groups, however many groups they are in. On CPUs and in f32 it is one chain over the list which
// continues from the value in dw, so that groups added in several calls have the bits of all their
// rows at once; but in parts it depends on how the rows are cut into groups. In 16 bits on GPUs the
// sum over the list, which starts at zero and takes 16 rows at a time, is added to dw once, so
// several calls have other bits than one. Biases are chains everywhere.
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

// How f32 products are summed on a CPU with tiles for bf16; elsewhere they are chains.
enum class F32Products : std::uint8_t {
  chains,
  parts  // Note [bf16x3 matmuls] (gemm/split_matmul_cpu.h): faster with 128 rows or more
};

// y(R, O) = x(R, I) w[g % X]^T + bias[g % X]; bias(X, O) may be absent.
void grouped_forward(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& w,
                     const Tensor& bias, const Tensor& offsets,
                     F32Products f32 = F32Products::chains);
// dx(R, I) = dy(R, O) w[g % X].
void grouped_backward_input(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& w,
                            const Tensor& offsets, F32Products f32 = F32Products::chains);
// dw(X, O, I) += dy^T x and db(X, O) += column sums of dy (may be absent), over groups [first,
// first + count) in their order; count is a multiple of X.
void grouped_backward_weight(Stream& stream, const Tensor& dw, const Tensor& db, const Tensor& dy,
                             const Tensor& x, const Tensor& offsets, std::int64_t first,
                             std::int64_t count, F32Products f32 = F32Products::chains);
// Before the sums over a token's slots, where the gradient of the weighted sum arrives unweighted:
// for each row r of all groups
//   dweights[r] = sum_i dx[r][i] x[r][i] + sum_o dy[r][o] bias[g % X][o];  dx[r] *= weights[r];
//   dy[r] *= weights[r]
// x and dx(R, I), dy(R, O); weights and dweights(R) f32; bias(X, O) may be absent. Sums in f32, in
// one order per row.
void grouped_backward_slots(Stream& stream, const Tensor& dweights, const Tensor& dx,
                            const Tensor& dy, const Tensor& x, const Tensor& weights,
                            const Tensor& bias, const Tensor& offsets);

}  // namespace trireme::ops
