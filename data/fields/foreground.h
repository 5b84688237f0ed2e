// SPDX-License-Identifier: Apache-2.0
// Where the maps of samples have classes above 0. Private to this folder.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "data/fields/patches.h"
#include "data/fields/sample_numbers.h"

namespace trireme {

// Cost: the whole map of a sample is read once per run and rank, when its first patch is placed
// around such a voxel; 8 bytes are kept for each of at most 4,096 voxels of a sample, fewer (at
// least 16) if all samples would need more than 64 MB.
class Foreground {
 public:
  explicit Foreground(std::uint64_t seed) : seed_(seed) {}

  // Voxels of classes above 0 and not `ignored` in the map of a sample, as numbers in C order of
  // `whole`, the sample's shape; each is equally likely to be kept (Vitter, "Random sampling with a
  // reservoir", ACM TOMS 1985, algorithm R). Any number of threads may call this at once. `sample`
  // of `samples` and the seed alone choose. Raises ExitCode::data like the reader.
  using Voxels = std::vector<std::uint64_t>;
  [[nodiscard]] std::shared_ptr<const Voxels> of(const FieldReader& reader, const UnitFields& unit,
                                                 const SampleShape& whole, std::uint64_t number,
                                                 std::int64_t sample, std::int64_t samples,
                                                 std::int64_t ignored) const;

 private:
  std::uint64_t seed_;
  mutable std::mutex mutex_;
  mutable std::unordered_map<std::int64_t, std::shared_ptr<const Voxels>> known_;  // by sample
};

}  // namespace trireme
