// SPDX-License-Identifier: Apache-2.0
// All parameters of a rank's part of the model, by name and by bucket: declarations, and the arenas
// of values, compute copies and gradients. Arena order is the order in which backward finishes
// parameters (reverse declaration), weights before statistics before frozen weights; a bucket is a
// contiguous range. With ZeRO each data-parallel rank owns an equal slice of every bucket of
// weights: stage 1 slices the optimizer state, 2 also gradients, 3 also parameters; 1 and 2 also
// slice fp32 parameters that ranks read rounded.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/nn/param_arena.h"

namespace trireme {

// The gradients that one micro-batch adds to, each a leaf of the tree of sums: of experts'
// parameters one for each data rank that shares them, or else of all weights one for each block of
// context parallelism on this rank.
struct GradientLeaves {
  int count = 1;
  bool experts = false;
  friend bool operator==(const GradientLeaves&, const GradientLeaves&) = default;
};

struct StoreOptions {
  DType compute = DType::f32;
  bool training = false;
  int gradient_levels = 1;  // partial gradient sums alive at once
  GradientLeaves leaves{};  // GradReducer::leaves
  ZeroOptions zero{};
  std::int64_t bucket_elements = 1 << 20;
};

class ParamStore {
 public:
  // `separate_ties`: each copy of a tied parameter has its own memory.
  explicit ParamStore(const ParamSplits& splits = {}, bool separate_ties = false)
      : layout_(std::make_unique<ParamLayout>(splits, separate_ties)) {}

  // Parameters declared from here on belong to the next unit (a layer of the chain). No bucket
  // spans two chunks.
  void open_chunk() { layout_->open_chunk(); }
  void open_unit() { layout_->open_unit(); }
  // Declaring a name twice yields one parameter; both shapes must agree.
  ParamId declare(const ParamSpec& spec) { return layout_->declare(spec); }

  // Lays out and allocates; ends the declarations. Allocates gradients only for training.
  void allocate(Device& device, const StoreOptions& options);
  // Draws every parameter from its Init, keyed by (seed, name, element of the whole tensor):
  // independent of rank and layout.
  void initialize(Stream& stream, std::uint64_t seed);
  // Rewrites the compute copies from the fp32 values: all that this rank holds, or those of a
  // weight bucket that was gathered in fp32.
  void refresh_compute(Stream& stream);
  void refresh_compute(Stream& stream, const Bucket& bucket);
  // Stage 3, a bucket of matrices: rounds this rank's slice into the compute copies and returns it.
  // In the other stages the update itself does so.
  Tensor refresh_own(Stream& stream, const Bucket& bucket);

  // Stages 1 and 2: whether compute copies of other ranks' slices are stale until the next gather.
  [[nodiscard]] bool slices_missing() const { return slices_missing_; }
  void note_gathered() { slices_missing_ = false; }

  [[nodiscard]] const ParamLayout& layout() const { return *layout_; }
  [[nodiscard]] const StoreOptions& options() const { return options_; }

  // Views in the shape of stored_shape(). `master` needs a parameter that is kept whole
  // (ParamLayout::keeps_slice) or, like `compute` in stage 3, a unit that is placed.
  [[nodiscard]] Tensor master(ParamId id) const { return masters_.param(id); }
  // The current destination of backward; of a frozen vector memory that nobody reads, because it
  // may share a kernel with a trained one. Layers skip the gradients of frozen matrices. Gradients
  // of an expert's parameters have sources(id): one that all rows are added to, or a leaf for each
  // of the data ranks that share experts, in order, which takes what the rows of that rank's
  // micro-batch add.
  [[nodiscard]] Tensor gradient(ParamId id, int source = 0) const;
  // From now on gradient() is that of this block, if blocks are leaves.
  void select_block(int block) { block_ = block; }
  [[nodiscard]] int sources(ParamId id) const {
    return leaves().experts && layout_->spec(id).expert ? leaves().count : 1;
  }
  // Those of StoreOptions, or one if they are of experts, of which there are none here.
  [[nodiscard]] const GradientLeaves& leaves() const { return options_.leaves; }
  [[nodiscard]] int leaves(const Bucket& bucket) const {
    return bucket.kind == ParamKind::weight && (bucket.expert || !leaves().experts) ? leaves().count
                                                                                    : 1;
  }
  // All gradients of leaf 0; of another the weights that have it: experts', at Bucket::experts, in
  // each partial sum, or all, in one. In stages 2 and 3 only those of placed units.
  [[nodiscard]] const ParamArena& gradients_of(int leaf) const {
    return leaf == 0 ? gradients_ : leaves_[static_cast<std::size_t>(leaf - 1)];
  }
  // Whether the parameter has a gradient.
  [[nodiscard]] bool trains(ParamId id) const { return layout_->trains(id); }
  // For kernels: matrices in the compute dtype, the rest in fp32.
  [[nodiscard]] Tensor compute(ParamId id) const;
  // A bias for a matrix product's epilogue: on a GPU in the compute dtype, as cuBLASLt reads it, so
  // no step rounds it twice; on a CPU in fp32.
  [[nodiscard]] Tensor added(ParamId id) const;

  [[nodiscard]] const ParamArena& masters() const { return masters_; }      // f32
  [[nodiscard]] const ParamArena& gradients() const { return gradients_; }  // f32, partial sums
  // Empty if the compute dtype is f32.
  [[nodiscard]] const ParamArena& compute_copies() const { return compute_; }
  // Visits this rank's slices of the weights' gradients in runs that are adjacent in the whole
  // tensor too: `visit(spec, values, first)`, with values(n) f32 of its elements from `first` on.
  template <typename Visit>
  void for_each_owned_gradient(Visit&& visit) const {
    for (const OwnedRun& run : layout_->owned_params()) {
      if (run.kind != ParamKind::weight) continue;
      const Tensor values = gradients_.owned(run);
      layout_->for_each_owned_run(
          run.param, {layout_->slice_first(layout_->bucket(run.param)) + run.first, run.count},
          [&](std::int64_t place, std::int64_t logical, std::int64_t count) {
            visit(layout_->spec(run.param), values.range(place, count), logical);
          });
    }
  }
  // Bytes held, including compute copies and unit buffers.
  [[nodiscard]] std::size_t parameter_bytes() const { return masters_.bytes() + compute_.bytes(); }

  // The same for gradients, of all leaves.
  [[nodiscard]] std::size_t gradient_bytes() const;
  // Of all leaves and partial sums; not those of placed units.
  void zero_gradients(Stream& stream) const;

  // From now on, gradients of these units and this kind accumulate in partial sum `level`.
  void select_level(UnitRange units, ParamKind kind, int level);
  // Stage 2 and up: from now on this buffer holds the whole weight gradients of `unit`; returns
  // them.
  Tensor place_gradients(int unit, int buffer);
  static constexpr int gradient_buffers = 2;
  // Stage 3: the same for its whole parameters; returns the fp32 ones.
  Tensor place_params(int unit, int buffer);
  static constexpr int param_buffers = 3;

 private:
  void initialize_param(Stream& stream, ParamId id, std::uint64_t seed);
  [[nodiscard]] bool rounded() const { return options_.compute != DType::f32; }
  [[nodiscard]] bool sliced_masters() const { return options_.zero.stage >= 3; }

  std::unique_ptr<ParamLayout> layout_;  // the arenas refer to it
  StoreOptions options_{};
  Device* device_ = nullptr;
  ParamArena masters_, compute_, gradients_;
  Buffer unread_;                   // gradients of frozen vectors
  std::vector<ParamArena> leaves_;  // gradients of leaves behind the first
  int block_ = 0;
  std::vector<int> level_of_;  // per parameter
  bool slices_missing_ = false;
};

}  // namespace trireme
