// SPDX-License-Identifier: Apache-2.0
#include "models/spatial/slab_windows.h"

#include <algorithm>

namespace trireme {
namespace {

constexpr std::size_t axes = 3;

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

// Positions from a window's first to its last, less one.
std::int64_t reach(const Windows& windows, std::size_t axis) {
  return windows.dilation[axis] * (windows.window[axis] - 1);
}

// The positions that these windows hold. Those outside of x are zeros, so no padding is left.
SpatialBox positions_of(const SpatialBox& windows, const Windows& by) {
  SpatialBox box;
  for (std::size_t axis = 0; axis < axes; ++axis) {
    const std::int64_t stride = by.stride[axis], padding = by.padding[axis];
    box.begin[axis] = windows.begin[axis] * stride - padding;
    box.end[axis] = (windows.end[axis] - 1) * stride - padding + reach(by, axis) + 1;
  }
  return box;
}

struct Region {
  SpatialBox box{};
  ops::PerAxis padding = 0;
};

// The windows that hold these positions, and those between and beside them that make an op without
// other positions: its padding is the same on both sides.
Region windows_of(const SpatialBox& positions, const Windows& by) {
  Region region;
  SpatialExtents paddings;
  for (std::size_t axis = 0; axis < axes; ++axis) {
    const std::int64_t stride = by.stride[axis], span = reach(by, axis);
    const std::int64_t begin = positions.begin[axis] + by.padding[axis];
    const std::int64_t first = floor_div(begin - span, stride);
    const std::int64_t padding = begin - first * stride;
    const std::int64_t count = (positions.extent(axis) + 2 * padding - span - 1) / stride + 1;
    region.box.begin[axis] = first;
    region.box.end[axis] = first + count;
    paddings[axis] = padding;
  }
  region.padding = {paddings[0], paddings[1], paddings[2]};
  return region;
}

// The windows of y that hold positions, if no two windows hold the same.
SpatialBox whole_windows_of(const SpatialBox& positions, const SpatialBox& y, const Windows& by) {
  SpatialBox box;
  for (std::size_t axis = 0; axis < axes; ++axis) {
    const std::int64_t stride = by.stride[axis], last = y.end[axis];
    box.begin[axis] = std::min(positions.begin[axis] / stride, last - 1);
    box.end[axis] = std::clamp((positions.end[axis] - 1) / stride + 1, box.begin[axis] + 1, last);
  }
  return box;
}

// Images are volumes with a depth of one.
Windows without_depth(const Windows& windows) {
  const auto flat = [](const ops::PerAxis& of, std::int64_t depth) {
    return ops::PerAxis(depth, of[1], of[2]);
  };
  return {flat(windows.window, 1), flat(windows.stride, 1), flat(windows.padding, 0),
          flat(windows.dilation, 1), windows.whole};
}

ops::PerAxis padding_of(const Shape& whole, const ops::PerAxis& by) {
  return whole.rank() == 4 ? ops::PerAxis(by[1], by[2]) : ops::PerAxis(by[0], by[1], by[2]);
}

}  // namespace

SlabWindows::Needs SlabWindows::find_needs_of_y(const SpatialSplit& split, const Windows& windows) {
  Needs needs;
  const auto note = [&](int rank, const SpatialBox& own, const SpatialBox& region,
                        const ops::PerAxis& padding) {
    needs.push_back({rank, region});
    if (rank == split.rank)
      of_y_.push_back({shape_of(y_.whole(), own), shape_of(x_.whole(), region),
                       padding_of(x_.whole(), padding)});
  };
  if (y_.cut()) {
    for (const Slabs::Slab& slab : y_.all())
      note(slab.rank, slab.box, positions_of(slab.box, windows), 0);
  } else {
    for (int rank = 0; rank < split.rank_count(); ++rank)
      note(rank, box_of(y_.whole()), box_of(x_.whole()), windows.padding);
  }
  return needs;
}

SlabWindows::Needs SlabWindows::find_needs_of_x(const SpatialSplit& split, const Windows& windows) {
  Needs needs;
  const auto note = [&](int rank, const SpatialBox& own, const SpatialBox& region,
                        const ops::PerAxis& padding) {
    needs.push_back({rank, region});
    if (rank != split.rank) return;
    of_x_.push_back(
        {shape_of(y_.whole(), region), shape_of(x_.whole(), own), padding_of(x_.whole(), padding)});
  };
  if (!x_.cut()) {
    for (int rank = 0; rank < split.rank_count(); ++rank)
      note(rank, box_of(x_.whole()), box_of(y_.whole()), windows.padding);
    return needs;
  }
  const std::int64_t samples = x_.whole()[0], channels = x_.whole().back();
  for (const Slabs::Slab& slab : x_.all()) {
    if (!windows.whole) {
      const Region region = windows_of(slab.box, windows);
      note(slab.rank, slab.box, region.box, region.padding);
      continue;
    }
    const SpatialBox region = whole_windows_of(slab.box, box_of(y_.whole()), windows);
    SpatialBox cover = positions_of(region, windows);
    for (std::size_t axis = 0; axis < axes; ++axis)
      cover.end[axis] = std::max(cover.end[axis], slab.box.end[axis]);
    note(slab.rank, cover, region, 0);
    if (slab.rank == split.rank)
      uncover_.push_back(box_copy(slab.box, slab.box, cover, samples, channels));
  }
  return needs;
}

SlabWindows::SlabWindows(Blueprint& blueprint, const Shape& x, const Shape& y,
                         const Windows& windows, DType dtype, bool keep)
    : x_(blueprint.spatial(), x), y_(blueprint.spatial(), y), padding_(windows.padding) {
  if (!cut()) return;
  const Windows by = x.rank() == 4 ? without_depth(windows) : windows;
  to_y_.emplace(blueprint, x, find_needs_of_y(blueprint.spatial(), by), dtype, keep);
  needs_of_x_ = find_needs_of_x(blueprint.spatial(), by);
  to_x_.emplace(blueprint, y, needs_of_x_, dtype, false);
  workspace_end_ = std::max(to_y_->workspace_end(), to_x_->workspace_end());
  if (!windows.whole) return;
  std::int64_t cover = 0;
  for (const Shapes& shapes : of_x_)
    cover = std::max(cover, shapes.positions.count());
  const std::size_t bytes = static_cast<std::size_t>(cover) * size_of(dtype);
  cover_ = blueprint.workspace(bytes, workspace_end_);
  workspace_end_ = cover_.offset + bytes;
  cover_.dtype = dtype;
  cover_.shape = Shape{cover};
}

Activation convolution_workspace(Blueprint& blueprint, const SlabWindows& windows, const Shape& w,
                                 const ops::ConvolutionOptions& options) {
  std::size_t bytes = 0;
  const auto add = [&](const Shape& x, const ops::PerAxis& padding) {
    bytes =
        std::max(bytes, ops::convolution_workspace_bytes(blueprint.device(), blueprint.compute(), x,
                                                         w, with_padding(options, padding)));
  };
  if (!windows.cut()) add(windows.x().whole(), options.padding);
  for (const auto& shapes : {windows.of_y(), windows.of_x()})
    for (const SlabWindows::Shapes& each : shapes)
      add(each.positions, each.padding);
  return blueprint.workspace(bytes, windows.workspace_end());
}

}  // namespace trireme
