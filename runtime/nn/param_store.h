// SPDX-License-Identifier: Apache-2.0
// All parameters of a rank's part of the model in flat fp32 arenas, ordered by when backward
// finishes them (the reverse of declaration), weights before statistics. A bucket is a contiguous
// range. With ZeRO (Rajbhandari et al., 2020) each data-parallel rank owns one equal slice of every
// bucket of weights: stage 1 slices the optimizer state, 2 also the gradients, 3 also the
// parameters. Arenas that hold own slices only are indexed by Bucket::owned; without ZeRO the slice
// is the whole bucket and both indices agree.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/nn/param_layout.h"

namespace trireme {

struct StoreOptions {
  DType compute = DType::f32;
  bool training = false;
  int gradient_levels = 1;  // partial gradient sums alive at once
  ZeroOptions zero{};
  std::int64_t bucket_elements = 1 << 20;
};

class ParamStore {
 public:
  // `separate_ties`: a copy of a tied parameter has memory of its own.
  explicit ParamStore(TensorSplit split = {}, bool separate_ties = false)
      : layout_(split, separate_ties) {}

  // Parameters declared from here on belong to the next unit: a layer of the chain. No bucket spans
  // two chunks.
  void open_chunk() { layout_.open_chunk(); }
  void open_unit() { layout_.open_unit(); }
  // The same name declared twice is one parameter; its shape must agree.
  ParamId declare(const ParamSpec& spec) { return layout_.declare(spec); }

  // Lays out and allocates; nothing can be declared afterwards. Gradients only when training.
  void allocate(Device& device, const StoreOptions& options);
  // Draws every parameter from its Init, keyed by (seed, name, element of the whole tensor):
  // independent of rank and layout.
  void initialize(Stream& stream, std::uint64_t seed);
  // Rewrites the compute copies from the fp32 values.
  void refresh_compute(Stream& stream);

  [[nodiscard]] const ParamLayout& layout() const { return layout_; }
  [[nodiscard]] const StoreOptions& options() const { return options_; }
  [[nodiscard]] std::span<const ParamSpec> specs() const { return layout_.specs(); }
  [[nodiscard]] std::int64_t offset(ParamId id) const { return layout_.offset(id); }
  [[nodiscard]] std::int64_t element_count() const { return layout_.elements(); }
  [[nodiscard]] std::int64_t weight_elements() const { return layout_.weight_elements(); }
  [[nodiscard]] std::int64_t parameter_count() const { return layout_.parameter_count(); }
  [[nodiscard]] std::span<const ParamId> order() const { return layout_.order(); }
  // Memory held, compute copies and the buffers of sliced arenas included.
  [[nodiscard]] std::size_t parameter_bytes() const;
  [[nodiscard]] std::size_t gradient_bytes() const;

  // Views in the shape of stored_shape(). `master` needs whole parameters: not in stage 3, unless
  // the unit is placed.
  [[nodiscard]] Tensor master(ParamId id) const;
  // Where backward accumulates at the moment.
  [[nodiscard]] Tensor gradient(ParamId id) const;
  // What kernels read: the compute dtype for matrices, fp32 for the rest.
  [[nodiscard]] Tensor compute(ParamId id) const;

  // Whole arenas, f32, element_count() each; padding stays zero. Weights come first. Only where the
  // ZeRO stage leaves them whole.
  [[nodiscard]] Tensor masters() const;
  [[nodiscard]] Tensor gradients(int level = 0) const;
  [[nodiscard]] Tensor compute_copies() const;  // empty when the compute dtype is f32

  // A whole level of partial gradient sums: of everything in stages 0 and 1, else of own slices.
  [[nodiscard]] Tensor partial_sums(int level) const;

  // One bucket of the arenas: all of it, and the part that this rank owns.
  [[nodiscard]] Tensor bucket_master(const Bucket& bucket) const;
  [[nodiscard]] Tensor bucket_gradient(const Bucket& bucket, int level) const;
  [[nodiscard]] Tensor owned_master(const Bucket& bucket) const;
  [[nodiscard]] Tensor owned_gradient(const Bucket& bucket, int level) const;
  [[nodiscard]] Tensor owned_compute(const Bucket& bucket) const;
  // Casts a bucket's whole master values into its compute copies.
  void refresh_compute(Stream& stream, const Bucket& bucket);

  // Gradients of these units and this kind accumulate in partial sum `level` from now on.
  void select_level(UnitRange units, ParamKind kind, int level);
  // Stage 2 and up: the whole weight gradients of `unit` live in staging buffer `buffer` from now
  // on; returns them.
  Tensor place_gradients(int unit, int buffer);
  static constexpr int gradient_buffers = 2;
  // Stage 3: the whole parameters of `unit` live in buffer `buffer` from now on.
  void place_params(int unit, int buffer);
  static constexpr int param_buffers = 3;

 private:
  // A unit's weights in one of a few buffers that units take turns in.
  struct Places {
    std::vector<Buffer> buffers;
    std::vector<int> of_unit;  // -1: nowhere
    [[nodiscard]] std::size_t bytes() const;
  };
  [[nodiscard]] std::byte* placed(const Places& places, int unit, std::int64_t element,
                                  std::size_t element_bytes, std::string_view what) const;
  void initialize_param(Stream& stream, ParamId id, std::uint64_t seed);
  [[nodiscard]] bool sliced_gradients() const { return options_.zero.stage >= 2; }
  [[nodiscard]] bool sliced_masters() const { return options_.zero.stage >= 3; }

  ParamLayout layout_;
  StoreOptions options_{};
  Device* device_ = nullptr;
  Buffer masters_, compute_;
  std::vector<Buffer> gradients_;  // by level
  std::vector<int> level_of_;      // by parameter
  Places gradient_places_, master_places_, compute_places_;
};

}  // namespace trireme
