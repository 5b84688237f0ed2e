// SPDX-License-Identifier: Apache-2.0
#include "runtime/optim/muon.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/comm/comm_label.h"
#include "runtime/ops/gemm/linear.h"
#include "runtime/ops/update/block_sum.h"

namespace trireme {
namespace {

Tensor block_of(const Tensor& blocks, std::int64_t b, const Shape& shape) {
  return blocks.range(b * shape.count(), shape.count()).reshaped(shape);
}

}  // namespace

Muon::Muon(Device& device, const ParamStore& params, const TensorGroup* slices,
           const TensorGroup* tensor)
    : device_(device),
      params_(params),
      slices_(slices),
      tensor_(tensor),
      dtype_(params.options().compute == DType::bf16 ? DType::bf16 : DType::f32) {
  const ParamLayout& layout = params.layout();
  for (const Bucket& bucket : layout.buckets()) {
    Work work{.bucket = &bucket};
    for (const ParamId id : layout.order()) {
      const ParamSpec& spec = layout.spec(id);
      if (&layout.bucket(id) != &bucket || !spec.hidden || !layout.trains(id)) continue;
      work.matrices.push_back({.first = layout.offset(id) - bucket.first,
                               .count = stored_shape(spec, layout.split(spec)).count(),
                               .parts = parts_of(spec, layout.split(spec))});
    }
    if (!work.matrices.empty()) work_.push_back(std::move(work));
  }
  allocate();
}

std::vector<Muon::Part> Muon::parts_of(const ParamSpec& spec, const TensorSplit& split) {
  TRIREME_EXPECTS(spec.shape.rank() > 1 && (spec.shard_axis != 1 || spec.shard_parts == 1),
                  "parameter {} {} is not a hidden matrix", spec.name, spec.shape.to_string());
  const std::int64_t rows = spec.shape[0], columns = spec.shape.count() / rows;
  // Scaled like AdamW's steps: entries of a matrix of orthonormal rows or columns are 1 /
  // sqrt(longer side).
  const auto factor = [](std::int64_t r, std::int64_t c) {
    return 0.2F * std::sqrt(static_cast<float>(std::max(r, c)));
  };
  const bool cut = is_split(spec, split);
  const std::int64_t blocks = cut ? split.blocks : 1, local = cut ? split.local() : 1;
  if (cut && spec.shard_axis == 1) {
    return {{.blocks = {.count = local,
                        .stride = rows * (columns / blocks),
                        .rows = rows,
                        .columns = columns / blocks,
                        .transposed = true},
             .split = true,
             .factor = factor(rows, columns)}};
  }
  std::vector<Part> parts;
  std::int64_t before = 0;
  const std::int64_t unit = rows / spec.shard_units() / blocks;
  for (int p = 0; p < spec.shard_parts; ++p) {
    const std::int64_t here = p == 0 ? spec.shard_lead * unit : unit;
    parts.push_back({.offset = before * columns,
                     .blocks = {.count = local,
                                .stride = rows / blocks * columns,
                                .rows = here,
                                .columns = columns,
                                .transposed = !cut && here < columns},
                     .split = cut,
                     .factor = factor(here * blocks, columns)});
    before += here;
  }
  return parts;
}

void Muon::allocate() {
  std::int64_t whole = 0, local = 0, grams = 0, square = 0;
  for (const Work& work : work_) {
    whole = std::max(whole, work.bucket->count);
    for (const Matrix& matrix : work.matrices) {
      for (const Part& part : matrix.parts) {
        const std::int64_t size = part.side() * part.side();
        local = std::max(local, part.blocks.count * part.length() * part.side());
        grams = std::max(grams, part.blocks.count * size);
        square = std::max(square, size);
      }
    }
  }
  const auto buffer = [&](std::int64_t elements, DType dtype) {
    return Buffer(device_, static_cast<std::size_t>(elements) * size_of(dtype), MemoryKind::device);
  };
  if (slices_ != nullptr) bucket_ = buffer(whole, DType::f32);
  for (Buffer& each : local_)
    each = buffer(local, dtype_);
  grams_ = buffer(grams, DType::f32);
  for (Buffer& each : squares_)
    each = buffer(square, dtype_);
  scale_ = buffer(1, DType::f32);
}

void Muon::orthogonalize(Stream& stream) {
  const ParamLayout& layout = params_.layout();
  for (const Work& work : work_) {
    const Bucket& bucket = *work.bucket;
    const Tensor own = params_.gradients().owned(bucket);
    const std::int64_t first = layout.slice_first(bucket) - bucket.first,
                       last = first + layout.slice_count(bucket);
    Tensor whole = own;
    if (slices_ != nullptr) {
      const ScopedCommLabel label("Muon's directions");
      whole = bucket_.view(DType::f32, Shape{bucket.count});
      slices_->all_gather(stream, own, whole);
    }
    for (const Matrix& matrix : work.matrices) {
      const std::int64_t from = std::max(matrix.first, first),
                         to = std::min(matrix.first + matrix.count, last);
      if (from >= to) continue;
      for (const Part& part : matrix.parts) {
        orthogonalize(stream, whole.range(matrix.first + part.offset, matrix.count - part.offset),
                      part);
      }
      if (slices_ == nullptr) continue;
      const Tensor mine = own.range(from - first, to - from);
      device_.copy(stream, mine.data, whole.range(from, to - from).data, mine.bytes());
    }
  }
}

Tensor Muon::gram_of(Stream& stream, const Tensor& y, const Part& part) {
  const std::int64_t count = part.blocks.count, side = part.side();
  const Tensor grams = grams_.view(DType::f32, Shape{count, side, side});
  const Tensor gram = grams_.view(DType::f32, Shape{side, side});
  device_.fill_zero(stream, grams.data, grams.bytes());
  // One call per block and a tree over blocks, for any number here: equal bits in every layout.
  for (std::int64_t b = 0; b < count; ++b) {
    const Tensor block = block_of(y, b, Shape{part.length(), side});
    ops::linear_backward_weight(stream, block_of(grams, b, Shape{side, side}), {}, block, block);
  }
  if (count > 1) ops::sum_blocks(stream, gram, grams);
  if (part.split && tensor_ != nullptr) {
    const ScopedCommLabel label("Muon's Gram matrices");
    tensor_->all_reduce(stream, gram);
  }
  return gram;
}

void Muon::orthogonalize(Stream& stream, const Tensor& x, const Part& part) {
  const std::int64_t side = part.side();
  const Shape shape{part.blocks.count, part.length(), side}, block{part.length(), side};
  Tensor y = local_[0].view(dtype_, shape), next = local_[1].view(dtype_, shape);
  const auto square = [&](std::size_t i) { return squares_[i].view(dtype_, Shape{side, side}); };
  const Tensor scale = scale_.view(DType::f32, Shape{1});
  ops::load_matrices(stream, y, x, part.blocks);
  for (int step = 0; step < ops::newton_schulz_steps; ++step) {
    ops::newton_schulz_gram(stream, square(0), scale, gram_of(stream, y, part), step == 0);
    ops::linear_forward(stream, square(1), square(0), square(0));
    ops::newton_schulz_polynomial(stream, square(2), square(0), square(1), scale);
    for (std::int64_t b = 0; b < part.blocks.count; ++b)
      ops::linear_forward(stream, block_of(next, b, block), block_of(y, b, block), square(2));
    std::swap(y, next);
  }
  ops::store_matrices(stream, x, y, part.blocks, part.factor);
}

}  // namespace trireme
