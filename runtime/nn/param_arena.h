// SPDX-License-Identifier: Apache-2.0
// The memory of a ParamLayout: one value per element, whole or, with ZeRO (Rajbhandari et al.,
// 2020), only for this rank's slices. Beside slices, a few buffers hold whole weights for one unit
// each at a time.
#pragma once

#include <string_view>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/nn/param_layout.h"

namespace trireme {

class ParamArena {
 public:
  enum class Form {
    whole,
    slices,       // this rank's slices, and buffers
    kept,         // ParamLayout::kept(), and buffers
    experts,      // weights of experts, whole
    buffers_only  // buffers alone
  };
  struct Options {
    std::string_view what;  // name of the values in messages
    DType dtype = DType::f32;
    Form form = Form::whole;
    int levels = 1;      // arenas of that form; the buffers are shared by all levels
    int buffers = 0;     // each holds the weights of any one unit
    bool frozen = true;  // includes frozen weights
  };
  ParamArena() = default;
  // `layout` must be laid out and outlive the arena.
  ParamArena(Device& device, const ParamLayout& layout, const Options& options);

  [[nodiscard]] std::size_t bytes() const;
  // All elements, weights first; padding stays zero. Only for Form::whole.
  [[nodiscard]] Tensor whole(int level = 0) const;
  // All elements that the arena holds; Bucket::owned, or in form `kept` Bucket::kept, indexes them.
  [[nodiscard]] Tensor held(int level = 0) const;
  // In the shape of stored_shape(). In sliced forms the parameter's unit must be placed.
  [[nodiscard]] Tensor param(ParamId id, int level = 0) const;
  [[nodiscard]] Tensor bucket(const Bucket& bucket, int level = 0) const;
  // The elements of a bucket that form `kept` holds.
  [[nodiscard]] Tensor kept(const Bucket& bucket) const;
  // The slice of a bucket that this rank owns; empty for Form::buffers_only.
  [[nodiscard]] Tensor owned(const Bucket& bucket, int level = 0) const;
  // Of that slice a run, or the elements of a parameter.
  [[nodiscard]] Tensor owned(const OwnedRun& run) const;
  [[nodiscard]] Tensor owned(ParamId id) const;
  // All that it holds, without the buffers.
  void zero(Stream& stream) const;
  // Makes `buffer` hold the whole weights of `unit` instead of its previous unit's; returns them.
  Tensor place(int unit, int buffer);

 private:
  [[nodiscard]] std::int64_t held_elements() const;
  [[nodiscard]] Tensor range(int level, std::int64_t first, std::int64_t count) const;
  // Elements of one bucket; `first` counts from the beginning of the layout.
  [[nodiscard]] Tensor elements(const Bucket& bucket, int unit, int level, std::int64_t first,
                                std::int64_t count) const;

  const ParamLayout* layout_ = nullptr;
  Options options_{};
  std::vector<Buffer> memory_;   // per level
  std::vector<Buffer> buffers_;  // of whole units
  std::vector<int> buffer_of_;   // per unit; -1: not placed
};

}  // namespace trireme
