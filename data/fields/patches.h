// SPDX-License-Identifier: Apache-2.0
// Random parts of samples, and their changes in training: pure functions of (seed, epoch, sample),
// so that no layout or resumption changes them. Private to this folder.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "data/fields/field_options.h"
#include "runtime/base/philox.h"

namespace trireme {

// Slices (1 of images), rows and columns: an extent or a place.
using Voxel = std::array<std::int64_t, 3>;

// What is drawn for a sample in one pass over the data.
class SampleDraws {
 public:
  SampleDraws(std::uint64_t seed, std::int64_t epoch, std::int64_t sample);

  // Whether the patch is placed around a voxel of a class above 0, and the voxel of `count`.
  [[nodiscard]] bool on_foreground(double share) const;
  [[nodiscard]] std::size_t voxel_of(std::size_t count) const;
  // The first voxel of a patch: each place inside the sample is equally likely.
  [[nodiscard]] Voxel place(const Voxel& sample, const Voxel& patch) const;
  // The same among the places that hold `voxel`.
  [[nodiscard]] Voxel place_around(const Voxel& voxel, const Voxel& sample,
                                   const Voxel& patch) const;

  // Flips and quarter turns of (slices, rows, columns, elements) numbers of 4 bytes, in place;
  // equal draws for the inputs and maps of a sample.
  void move(const FieldOptions& options, const Voxel& extents,
            std::span<std::uint32_t> values) const;
  // Brightness, then noise (with a deviation from U(0, s)), as MLPerf's U-Net 3D.
  void change(const FieldOptions& options, std::span<float> inputs) const;

 private:
  using Words = std::array<std::uint32_t, 4>;
  [[nodiscard]] Words words(std::uint64_t counter) const;
  [[nodiscard]] Voxel between(const Voxel& least, const Voxel& most) const;

  Philox random_;
  std::uint64_t sample_, epoch_;
};

}  // namespace trireme
