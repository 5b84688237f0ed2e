// SPDX-License-Identifier: Apache-2.0
// Boxes of samples in slabs, brought to the ranks that need them: halos, and whole
// samples.
#pragma once

#include <vector>

#include "runtime/nn/layer.h"
#include "runtime/ops/elementwise/copy_boxes.h"

namespace trireme {

// Elements from the box `part` of a tensor (N, extents of `from`, C) to the same of (N, extents of
// `to`, C). `part` lies in both.
[[nodiscard]] ops::BoxCopy box_copy(const SpatialBox& part, const SpatialBox& to,
                                    const SpatialBox& from, std::int64_t samples,
                                    std::int64_t channels);

// Copies a rank's slabs out of a tensor (N, extents of a box around them, C).
class SlabCopy {
 public:
  // `slabs` may have other channels.
  SlabCopy(const Slabs& slabs, const SpatialBox& from, std::int64_t channels);
  void operator()(const Context& context, const Tensor& held, const Tensor& from) const {
    ops::copy_boxes(context.stream, held, from, copies_);
  }

 private:
  std::vector<ops::BoxCopy> copies_;
};

// Each rank needs some boxes of a tensor (N, [D,] H, W, C), whose slabs the ranks hold.
class BoxExchange {
 public:
  struct Need {
    int rank = 0;
    SpatialBox box{};  // may stick out of the tensor, where it gets zeros
  };
  // `needs` is the same list on every rank. What other ranks sent is kept until backward if `keep`,
  // else until the next use of the workspace, whose first `after` bytes are left alone.
  BoxExchange(Blueprint& blueprint, const Shape& source, const std::vector<Need>& needs,
              DType dtype, bool keep, std::size_t after = 0);
  // Bytes of the workspace that this uses, with those before.
  [[nodiscard]] std::size_t workspace_end() const { return workspace_end_; }

  // Sends and receives what other ranks hold; later work on the stream overlaps that until
  // finish(). Neither does anything if every rank has what it needs.
  void start(const Context& context, const Tensor& source) const;
  void finish(const Context& context) const;
  // This rank's i-th need. Without messages it is complete before finish().
  [[nodiscard]] std::size_t count() const { return boxes_.size(); }
  [[nodiscard]] bool has_messages(std::size_t i) const { return !boxes_[i].received.empty(); }
  [[nodiscard]] Shape shape(std::size_t i) const { return shape_of(slabs_.whole(), boxes_[i].box); }
  // Valid until the next call, or a slab of `source` itself.
  [[nodiscard]] Tensor box(const Context& context, const Tensor& source, std::size_t i) const;
  void copy_box(const Context& context, const Tensor& to, const Tensor& source,
                std::size_t i) const;

 private:
  struct OwnBox {
    SpatialBox box{};
    std::vector<ops::BoxCopy> local{}, received{};  // from the held tensor, from messages
    std::ptrdiff_t slab = -1;                       // of slabs_.all(), if the box is one
    bool sticks_out = false;
  };

  Slabs slabs_;
  int rank_;
  std::vector<OwnBox> boxes_;
  std::vector<ops::BoxCopy> packed_;  // from the held tensor to messages
  // Elements to and from each rank.
  std::vector<std::int64_t> sent_, received_;
  Activation send_{}, receive_{}, region_{};
  std::size_t workspace_end_;
};

}  // namespace trireme
