// SPDX-License-Identifier: Apache-2.0
// Spatial parallelism: the ranks of a tensor group share each sample, cut along its spatial axes
// (Dryden et al., 2019; LBANN's DistConv). A sample is computed in fixed slabs, whatever the number
// of ranks; a rank holds a box of adjacent slabs. So for equal slabs the arithmetic and the bits do
// not depend on the number of ranks.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/shape.h"

namespace trireme {

using SpatialExtents = std::array<std::int64_t, 3>;  // depth, height, width; an image's depth is 1

// Positions [begin, end) of each axis.
struct SpatialBox {
  SpatialExtents begin{}, end{1, 1, 1};

  [[nodiscard]] constexpr std::int64_t extent(std::size_t axis) const {
    return end[axis] - begin[axis];
  }
  [[nodiscard]] constexpr std::int64_t volume() const {
    return std::max<std::int64_t>(0, extent(0)) * std::max<std::int64_t>(0, extent(1)) *
           std::max<std::int64_t>(0, extent(2));
  }
  [[nodiscard]] SpatialBox intersect(const SpatialBox& other) const;
  friend constexpr bool operator==(const SpatialBox&, const SpatialBox&) = default;
};

// All positions of (N, [D,] H, W, C).
[[nodiscard]] SpatialBox box_of(const Shape& whole);
// (N, extents of the box, C) for a tensor like `whole`; depth only for volumes.
[[nodiscard]] Shape shape_of(const Shape& whole, const SpatialBox& box);

struct SpatialSplit {
  SpatialExtents ranks{1, 1, 1};
  SpatialExtents slabs{1, 1, 1};  // multiples of ranks
  int rank = 0;                   // ((depth * ranks[1]) + height) * ranks[2] + width

  [[nodiscard]] constexpr std::int64_t rank_count() const { return ranks[0] * ranks[1] * ranks[2]; }
  [[nodiscard]] constexpr std::int64_t slab_count() const { return slabs[0] * slabs[1] * slabs[2]; }
  [[nodiscard]] constexpr std::int64_t local() const { return slab_count() / rank_count(); }
  [[nodiscard]] constexpr bool cuts() const { return slab_count() > 1; }
  // Whether a tensor of this shape is cut: images and volumes with a position for each slab. Others
  // are whole on every rank, which all compute the same.
  [[nodiscard]] bool cuts(const Shape& whole) const;
  // The shape in which a rank holds a tensor: its slabs, each (N, [D,] H, W, C), one after another,
  // as an image (N, pixels, 1, C); or the whole.
  [[nodiscard]] Shape held(const Shape& whole) const;
  friend constexpr bool operator==(const SpatialSplit&, const SpatialSplit&) = default;
};

// Of a layer's experts, for a micro-batch on one of the ranks that share them out.
struct ExpertMessages {
  std::int64_t rows = 0;                          // that it sends, and with an even load receives
  std::int64_t capacity = 0;                      // that it has memory for
  std::int64_t most = 0;                          // that it can receive
  double row_bytes = 0;                           // of a message
  std::size_t kept_bytes = 0, scratch_bytes = 0;  // of the memory for one row
  double beside_flops = 0;                        // of work during the way out, on all tensor ranks
};

// Of a layer's attention over sequences that are cut in time (context_split.h), for a micro-batch
// on one of the ranks that share them, all of its blocks together; bytes.
struct ContextMessages {
  double gathered = 0;  // all ranks' keys and values: in forward, and again in backward
  double reduced = 0;   // their gradients over whole sequences, reduce-scattered in backward
  double groups = 1;    // in which these go, each gathered during the attention of the one before
  // That it holds of what goes all-to-all between rows and heads, in forward once and in backward
  // twice: queries, keys and values; and attention's outputs.
  double exchanged = 0, returned = 0;
};

// What ranks of spatial or expert parallelism send for a micro-batch, in bytes.
struct SampleTraffic {
  std::vector<double>
      exchanges{};                // of boxes, in forward and backward: by the rank that sends most
  std::vector<double> gathers{};  // of what each slab's part of a sum is, half of them in forward
  std::vector<double> sums{};     // all-reduces of parameter gradients, in backward
  ExpertMessages experts{};
  ContextMessages context{};
};

// The parts of a tensor (N, [D,] H, W, C) that ranks hold.
class Slabs {
 public:
  struct Slab {
    int rank = 0;
    SpatialBox box{};
    std::int64_t first = 0;  // pixels before it in its rank's memory
  };
  Slabs(const SpatialSplit& split, const Shape& whole);

  [[nodiscard]] const Shape& whole() const { return whole_; }
  [[nodiscard]] bool cut() const { return cut_; }
  // Of all ranks, by rank and then in row-major order. A tensor that is not cut is one slab, which
  // each rank holds: here, this one.
  [[nodiscard]] std::span<const Slab> all() const { return all_; }
  [[nodiscard]] std::span<const Slab> local() const { return all().subspan(first_, count_); }
  // What this rank's slabs cover together.
  [[nodiscard]] SpatialBox own_box() const {
    return {local().front().box.begin, local().back().box.end};
  }
  // Slab `slab` of the held tensor, whose channels may differ from whole()'s.
  [[nodiscard]] Tensor of(const Tensor& held, const Slab& slab) const;

 private:
  Shape whole_;
  bool cut_;
  std::vector<Slab> all_;
  std::size_t first_ = 0, count_ = 1;  // this rank's
};

}  // namespace trireme
