// SPDX-License-Identifier: Apache-2.0
// The memory behind a ParamLayout: a value for each of its elements, whole or, with ZeRO
// (Rajbhandari et al., 2020), for own slices only. Of slices the weights of a few units at a time
// may be whole, in buffers that units take turns in.
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
    slices,       // own ones, and buffers
    kept,         // what ParamLayout::kept says, and buffers
    buffers_only  // or not even those
  };
  struct Options {
    std::string_view what;  // the values are called in messages
    DType dtype = DType::f32;
    Form form = Form::whole;
    int levels = 1;      // arenas of that form; the buffers are of all of them
    int buffers = 0;     // each holds the weights of any unit
    bool frozen = true;  // has a place for frozen weights
  };
  ParamArena() = default;
  // `layout` is laid out and outlives the arena.
  ParamArena(Device& device, const ParamLayout& layout, const Options& options);

  [[nodiscard]] std::size_t bytes() const;
  // All elements that it has a place for, weights first; padding stays zero. Only where nothing is
  // sliced.
  [[nodiscard]] Tensor whole(int level = 0) const;
  // Those, or what there is of them, which Bucket::owned or, in the form `kept`, Bucket::kept
  // indexes.
  [[nodiscard]] Tensor held(int level = 0) const;
  // In the shape of stored_shape(). Sliced weights must be placed; those of a bucket too.
  [[nodiscard]] Tensor param(ParamId id, int level = 0) const;
  [[nodiscard]] Tensor bucket(const Bucket& bucket, int level = 0) const;
  // What there is of a bucket in the form `kept`.
  [[nodiscard]] Tensor kept(const Bucket& bucket) const;
  // The part of a bucket that this rank owns; empty where there are buffers only.
  [[nodiscard]] Tensor owned(const Bucket& bucket, int level = 0) const;
  // The whole weights of `unit` live in `buffer` from now on, in place of another unit's; returns
  // them.
  Tensor place(int unit, int buffer);

 private:
  [[nodiscard]] std::int64_t held_elements() const;
  [[nodiscard]] Tensor range(int level, std::int64_t first, std::int64_t count) const;
  // Elements of one bucket, counted from the beginning of the layout.
  [[nodiscard]] Tensor elements(const Bucket& bucket, int unit, int level, std::int64_t first,
                                std::int64_t count) const;

  const ParamLayout* layout_ = nullptr;
  Options options_{};
  std::vector<Buffer> memory_;   // by level
  std::vector<Buffer> buffers_;  // of whole units
  std::vector<int> buffer_of_;   // by unit; -1: nowhere
};

}  // namespace trireme
