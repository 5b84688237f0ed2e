// SPDX-License-Identifier: Apache-2.0
#include "data/fields/foreground.h"

#include <algorithm>

namespace trireme {
namespace {

constexpr std::int64_t most_kept = 4096, least_kept = 16, most_of_all = 64'000'000 / 8;
constexpr std::uint64_t block_pixels = 1 << 22;  // that are read at a time
// The counters of no epoch (patches.cpp).
constexpr std::uint64_t reservoir = std::uint64_t{0xFFFFFF} << 40;

// Lines at a time: whole chunks, so that none is decoded twice.
std::uint64_t lines_of_block(const StoredField& map, const SampleShape& whole) {
  const std::uint64_t lines =
      std::max<std::uint64_t>(1, block_pixels / static_cast<std::uint64_t>(whole.pixels_of_line()));
  const std::uint64_t chunk =
      map.chunk_extents.empty() ? 1 : *std::ranges::max_element(map.chunk_extents);
  return (lines + chunk - 1) / chunk * chunk;
}

}  // namespace

std::shared_ptr<const Foreground::Voxels> Foreground::of(
    const FieldReader& reader, const UnitFields& unit, const SampleShape& whole,
    std::uint64_t number, std::int64_t sample, std::int64_t samples, std::int64_t ignored) const {
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = known_.find(sample); known != known_.end()) return known->second;
  }
  const StoredField& field = unit.targets().front();
  const auto capacity =
      static_cast<std::size_t>(std::clamp(most_of_all / samples, least_kept, most_kept));
  const Philox random = Philox::keyed(seed_, RandomPurpose::crop);
  Voxels kept;
  std::vector<float> map;
  const std::uint64_t all = whole.lines().count, step = lines_of_block(field, whole);
  std::uint64_t found = 0, voxel = 0;
  for (std::uint64_t line = 0; line < all; line += step) {
    read_map(reader, unit, field, whole, MapRole::target, number,
             {line, std::min(step, all - line)}, map);
    for (const float value : map) {
      const std::uint64_t at = voxel++;
      if (!(value > 0) || value == static_cast<float>(ignored)) continue;
      if (++found <= capacity) {
        kept.push_back(at);
        continue;
      }
      const auto words = random(static_cast<std::uint64_t>(sample), reservoir | found);
      const auto place = (std::uint64_t{words[0]} << 32 | words[1]) % found;
      if (place < capacity) kept[static_cast<std::size_t>(place)] = at;
    }
  }
  const std::lock_guard lock(mutex_);
  return known_.emplace(sample, std::make_shared<const Voxels>(std::move(kept))).first->second;
}

}  // namespace trireme
