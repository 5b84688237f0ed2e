// SPDX-License-Identifier: Apache-2.0
// Which elements each rank writes: every element of every tensor exactly once over all ranks. A
// ZeRO slice is written by its owner; what data-parallel ranks hold alike they divide evenly; of
// what tensor-parallel ranks hold alike the first writes; of tied copies only the original.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "runtime/checkpoint/files/manifest.h"
#include "runtime/checkpoint/gather.h"

namespace trireme {

// The memory of a rank that a checkpoint keeps. Views; their owners outlive whoever holds this.
struct CheckpointValues {
  ParamStore& params;
  // Moments of the optimizer and averaged parameters, indexed as Bucket::owned; empty where there
  // are none.
  Tensor first{}, second{}, average{};
  // Small tensors that every rank holds alike (LossScaler::state), by name.
  std::vector<std::pair<std::string, Tensor>> scalars{};
  // Of these, running means that begin anew where a checkpoint was written without them.
  std::vector<std::string> measured{};
  [[nodiscard]] bool starts_anew(const std::string& scalar) const {
    return std::ranges::find(measured, scalar) != measured.end();
  }

  [[nodiscard]] bool has(ValueKind kind) const;
  [[nodiscard]] std::vector<ValueKind> kinds() const;
};

[[nodiscard]] Blocking blocking_of(const ParamSpec& spec, const TensorSplit& split);

// The tensors of the manifest: those of the whole chain, in its order.
[[nodiscard]] std::vector<ManifestTensor> manifest_tensors(std::span<const PlacedParam> placed,
                                                           const TensorSplit& split);

// A slice of a manifest and where it lies in this rank's arenas.
struct OwnSlice {
  ManifestSlice slice;
  int bucket = 0;
  std::int64_t element = 0;  // of the whole arena
};
[[nodiscard]] std::vector<OwnSlice> own_slices(const ParamLayout& layout, const ProcessMesh& mesh,
                                               std::span<const ManifestTensor> tensors);

// Elements [first, first + count) of the whole arena, from a bucket, where a value of this rank
// has them; `values` views exactly those.
struct Held {
  std::int64_t first = 0;
  std::int64_t count = 0;
  Tensor values{};
};
// What this rank holds of a bucket: of parameters ParamLayout::kept, of moments and averages the
// own slice. Empty `values` where the bucket has no such value.
[[nodiscard]] Held held_of(const CheckpointValues& values, ValueKind kind, const Bucket& bucket);

}  // namespace trireme
