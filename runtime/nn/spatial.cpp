// SPDX-License-Identifier: Apache-2.0
#include "runtime/nn/spatial.h"

#include <algorithm>

namespace trireme {
namespace {

// Part `index` of an axis in `count` parts, which differ by at most one position: the longer ones
// are spread evenly, the last among them.
std::int64_t edge(std::int64_t extent, std::int64_t index, std::int64_t count) {
  return extent * index / count;
}

std::int64_t extent_of(const Shape& whole, std::size_t axis) {
  const std::size_t missing = 5 - whole.rank();  // an image has no depth
  return axis < missing ? 1 : whole[axis + 1 - missing];
}

}  // namespace

SpatialBox SpatialBox::intersect(const SpatialBox& other) const {
  SpatialBox both;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    both.begin[axis] = std::max(begin[axis], other.begin[axis]);
    both.end[axis] = std::min(end[axis], other.end[axis]);
  }
  return both;
}

SpatialBox box_of(const Shape& whole) {
  SpatialBox box;
  for (std::size_t axis = 0; axis < 3; ++axis)
    box.end[axis] = extent_of(whole, axis);
  return box;
}

Shape shape_of(const Shape& whole, const SpatialBox& box) {
  const std::int64_t samples = whole[0], channels = whole.back();
  if (whole.rank() == 4) return {samples, box.extent(1), box.extent(2), channels};
  return {samples, box.extent(0), box.extent(1), box.extent(2), channels};
}

bool SpatialSplit::cuts(const Shape& whole) const {
  if (!cuts() || (whole.rank() != 4 && whole.rank() != 5)) return false;
  for (std::size_t axis = 0; axis < 3; ++axis)
    if (extent_of(whole, axis) < slabs[axis]) return false;
  return true;
}

Shape SpatialSplit::held(const Shape& whole) const {
  if (!cuts(whole)) return whole;
  std::int64_t pixels = 0;
  const Slabs parts(*this, whole);
  for (const Slabs::Slab& slab : parts.local())
    pixels += slab.box.volume();
  return {whole[0], pixels, 1, whole.back()};
}

Slabs::Slabs(const SpatialSplit& split, const Shape& whole)
    : whole_(whole), cut_(split.cuts(whole)) {
  if (!cut_) {
    all_ = {{split.rank, box_of(whole), 0}};
    return;
  }
  const auto each = [](const SpatialExtents& counts, auto&& visit) {
    for (std::int64_t d = 0; d < counts[0]; ++d)
      for (std::int64_t h = 0; h < counts[1]; ++h)
        for (std::int64_t w = 0; w < counts[2]; ++w)
          visit(SpatialExtents{d, h, w});
  };
  SpatialExtents local;
  for (std::size_t axis = 0; axis < 3; ++axis)
    local[axis] = split.slabs[axis] / split.ranks[axis];
  int rank = 0;
  each(split.ranks, [&](const SpatialExtents& at_rank) {
    std::int64_t first = 0;
    each(local, [&](const SpatialExtents& at) {
      Slab slab{.rank = rank, .first = first};
      for (std::size_t axis = 0; axis < 3; ++axis) {
        const std::int64_t index = at_rank[axis] * local[axis] + at[axis];
        slab.box.begin[axis] = edge(extent_of(whole, axis), index, split.slabs[axis]);
        slab.box.end[axis] = edge(extent_of(whole, axis), index + 1, split.slabs[axis]);
      }
      first += slab.box.volume();
      all_.push_back(slab);
    });
    ++rank;
  });
  count_ = static_cast<std::size_t>(split.local());
  first_ = static_cast<std::size_t>(split.rank) * count_;
}

Tensor Slabs::of(const Tensor& held, const Slab& slab) const {
  if (!cut_) return held;
  const std::int64_t channels = held.shape.back(), each = whole_[0] * channels;
  Shape shape = shape_of(whole_, slab.box);
  if (channels != shape.back()) {
    std::vector<std::int64_t> extents(shape.extents().begin(), shape.extents().end());
    extents.back() = channels;
    shape = Shape(extents);
  }
  return held.range(slab.first * each, slab.box.volume() * each).reshaped(shape);
}

}  // namespace trireme
