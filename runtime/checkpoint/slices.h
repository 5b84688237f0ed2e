// SPDX-License-Identifier: Apache-2.0
// Decides which rank writes which elements, so each element of every tensor is written once.
// Data-parallel ranks that hold the same, a ZeRO slice or the whole, share it evenly; the first
// rank of a tensor group writes what the group replicates; only originals of ties are written.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "runtime/checkpoint/files/manifest.h"
#include "runtime/checkpoint/gather.h"

namespace trireme {

// A rank's memory that a checkpoint stores. Views; their owners must outlive this.
struct CheckpointValues {
  ParamStore& params;
  // Optimizer moments and averaged parameters, indexed like Bucket::owned; empty if there are none.
  Tensor first{}, second{}, average{};
  // Small tensors that are equal on every rank (LossScaler::state), by name.
  std::vector<std::pair<std::string, Tensor>> scalars{};
  // Names of scalars that restart if the checkpoint lacks them: running means.
  std::vector<std::string> measured{};
  [[nodiscard]] bool starts_anew(const std::string& scalar) const {
    return std::ranges::find(measured, scalar) != measured.end();
  }

  [[nodiscard]] bool has(ValueKind kind) const;
  [[nodiscard]] std::vector<ValueKind> kinds() const;
};

[[nodiscard]] Blocking blocking_of(const ParamSpec& spec, const TensorSplit& split);

// The manifest's tensors: those of the whole chain, in order.
[[nodiscard]] std::vector<ManifestTensor> manifest_tensors(std::span<const PlacedParam> placed,
                                                           const ParamSplits& splits);

// A manifest slice with its place in this rank's arenas.
struct OwnSlice {
  ManifestSlice slice;
  int bucket = 0;
  std::int64_t element = 0;  // index in the whole arena
};
[[nodiscard]] std::vector<OwnSlice> own_slices(const ParamLayout& layout, const ProcessMesh& mesh,
                                               std::span<const ManifestTensor> tensors);

// Elements [first, first + count) of the whole arena, in one bucket, for which this rank has a
// value; `values` views exactly those.
struct Held {
  std::int64_t first = 0;
  std::int64_t count = 0;
  Tensor values{};
};
// This rank's part of a bucket: ParamLayout::kept for parameters, its slice for moments and
// averages. Empty `values` if the bucket has no such value.
[[nodiscard]] Held held_of(const CheckpointValues& values, ValueKind kind, const Bucket& bucket);

}  // namespace trireme
