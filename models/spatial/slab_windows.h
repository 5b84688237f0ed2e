// SPDX-License-Identifier: Apache-2.0
// Ops whose windows slide from x to y (convolution, pooling, and the other way transposed
// convolution), on samples in slabs. By ownership of results: a rank computes its
// slabs of y from the positions of x that their windows hold, and its slabs of dx from the windows
// that hold them. So any window, stride and dilation works. Where a tensor is too small to be cut,
// all ranks gather the other one and compute the same.
#pragma once

#include <optional>

#include "models/spatial/box_exchange.h"
#include "runtime/ops/convolution/convolution.h"

namespace trireme {

struct Windows {
  ops::PerAxis window = 1, stride = 1, padding = 0, dilation = 1;
  // Windows do not overlap, and each_x gives whole windows: the op is called without padding for
  // all positions that they hold, of which x takes its own.
  bool whole = false;
};

class SlabWindows {
 public:
  // A part of one tensor, the part of the other that it needs, and the padding along each axis that
  // is then left to the op.
  struct Shapes {
    Shape windows, positions;  // of y, of x
    ops::PerAxis padding = 0;
  };
  // x and y: whole shapes. `keep`: what forward received is kept, so that each_y works in backward.
  // `dtype` is x's.
  SlabWindows(Blueprint& blueprint, const Shape& x, const Shape& y, const Windows& windows,
              DType dtype, bool keep);

  [[nodiscard]] bool cut() const { return x_.cut() || y_.cut(); }
  // Bytes of the workspace that this uses beside an op's.
  [[nodiscard]] std::size_t workspace_end() const { return workspace_end_; }
  [[nodiscard]] const Slabs& x() const { return x_; }
  [[nodiscard]] const Slabs& y() const { return y_; }
  // The shapes of all calls of visit; none if nothing is cut.
  [[nodiscard]] std::span<const Shapes> of_y() const { return of_y_; }
  [[nodiscard]] std::span<const Shapes> of_x() const { return of_x_; }

  // Calls visit(slab of y, region of x, padding, i) for each local slab of y; those that need no
  // message while the others' travel. `receives`: false if forward has received. If nothing is cut,
  // visit(y, x, padding, 0).
  template <typename Visit>
  void each_y(const Context& context, const Tensor& y, const Tensor& x, bool receives,
              Visit&& visit) const {
    if (!cut()) return visit(y, x, padding_, std::size_t{0});
    each(context, *to_y_, x, receives, [&](std::size_t i, const Tensor& region) {
      visit(y_.of(y, y_.local()[i]), region, of_y_[i].padding, i);
    });
  }
  // Brings the boxes of each_x of another tensor (N, axes of y, C), in visit's order.
  [[nodiscard]] BoxExchange beside_y(Blueprint& blueprint, DType dtype) const {
    return {blueprint, y_.whole(), needs_of_x_, dtype, false, workspace_end_};
  }
  // Calls visit(slab of x, region of y, padding, i) for each local slab of x.
  template <typename Visit>
  void each_x(const Context& context, const Tensor& x, const Tensor& y, Visit&& visit) const {
    if (!cut()) return visit(x, y, padding_, std::size_t{0});
    each(context, *to_x_, y, true, [&](std::size_t i, const Tensor& region) {
      const Tensor slab = x_.of(x, x_.local()[i]);
      const Shape& shape = of_x_[i].positions;
      if (shape == slab.shape) return visit(slab, region, of_x_[i].padding, i);
      const Tensor cover = context(cover_).range(0, shape.count()).reshaped(shape);
      visit(cover, region, of_x_[i].padding, i);
      ops::copy_boxes(context.stream, slab, cover, {&uncover_[i], 1});
    });
  }

 private:
  using Needs = std::vector<BoxExchange::Need>;
  // What a slab of y needs of x, and a slab of x of y.
  [[nodiscard]] Needs find_needs_of_y(const SpatialSplit& split, const Windows& windows);
  [[nodiscard]] Needs find_needs_of_x(const SpatialSplit& split, const Windows& windows);
  template <typename Visit>
  static void each(const Context& context, const BoxExchange& exchange, const Tensor& from,
                   bool receives, Visit&& visit) {
    if (receives) exchange.start(context, from);
    for (const bool remote : {false, true}) {
      if (remote && receives) exchange.finish(context);
      for (std::size_t i = 0; i < exchange.count(); ++i) {
        if (exchange.has_messages(i) != remote) continue;
        visit(i, exchange.box(context, from, i));
      }
    }
  }

  Slabs x_, y_;
  ops::PerAxis padding_;
  std::vector<Shapes> of_y_, of_x_;
  Needs needs_of_x_;
  std::vector<ops::BoxCopy> uncover_;  // of_x_'s slabs out of whole windows
  Activation cover_{};
  std::size_t workspace_end_ = 0;
  std::optional<BoxExchange> to_y_, to_x_;
};

[[nodiscard]] inline ops::ConvolutionOptions with_padding(ops::ConvolutionOptions options,
                                                          const ops::PerAxis& padding) {
  options.padding = padding;
  return options;
}

// Workspace of the three ops of a convolution w over all of `windows`, whose x and y these are;
// behind what `windows` uses.
[[nodiscard]] Activation convolution_workspace(Blueprint& blueprint, const SlabWindows& windows,
                                               const Shape& w,
                                               const ops::ConvolutionOptions& options);

}  // namespace trireme
