// SPDX-License-Identifier: Apache-2.0
#include "data/fields/patches.h"

#include <algorithm>
#include <vector>

#include "runtime/base/portable_math.h"

namespace trireme {
namespace {

// Counters of an epoch: the choices, then blocks of noise.
enum Counter : std::uint64_t { choices, place_words, moves, changes, first_noise = 16 };
constexpr int epoch_shift = 40;

bool happens(std::uint32_t word, double probability) {
  return static_cast<double>(Philox::uniform(word)) < probability;
}

std::int64_t number_below(std::uint32_t word, std::int64_t count) {
  return static_cast<std::int64_t>((word * static_cast<std::uint64_t>(count)) >> 32);
}

}  // namespace

SampleDraws::SampleDraws(std::uint64_t seed, std::int64_t epoch, std::int64_t sample)
    : random_(Philox::keyed(seed, RandomPurpose::crop)),
      sample_(static_cast<std::uint64_t>(sample)),
      epoch_(static_cast<std::uint64_t>(epoch)) {}

SampleDraws::Words SampleDraws::words(std::uint64_t counter) const {
  return random_(sample_, epoch_ << epoch_shift | counter);
}

bool SampleDraws::on_foreground(double share) const {
  return happens(words(choices)[0], share);
}

std::size_t SampleDraws::voxel_of(std::size_t count) const {
  return static_cast<std::size_t>(
      number_below(words(choices)[1], static_cast<std::int64_t>(count)));
}

Voxel SampleDraws::between(const Voxel& least, const Voxel& most) const {
  const Words drawn = words(place_words);
  Voxel place{};
  for (std::size_t i = 0; i < place.size(); ++i)
    place[i] = least[i] + number_below(drawn[i], most[i] - least[i] + 1);
  return place;
}

Voxel SampleDraws::place(const Voxel& sample, const Voxel& patch) const {
  return between({}, {sample[0] - patch[0], sample[1] - patch[1], sample[2] - patch[2]});
}

Voxel SampleDraws::place_around(const Voxel& voxel, const Voxel& sample, const Voxel& patch) const {
  Voxel least{}, most{};
  for (std::size_t i = 0; i < voxel.size(); ++i) {
    least[i] = std::max<std::int64_t>(0, voxel[i] - patch[i] + 1);
    most[i] = std::min(voxel[i], sample[i] - patch[i]);
  }
  return between(least, most);
}

void SampleDraws::move(const FieldOptions& options, const Voxel& extents,
                       std::span<std::uint32_t> values) const {
  const auto [slices, rows, columns] = extents;
  const Words drawn = words(moves);
  const std::size_t axes = options.flips.size();  // the last ones of three
  // The place that a result comes from is linear in its own.
  std::int64_t first = 0;
  const Voxel unmoved{rows * columns, columns, 1};
  Voxel step = unmoved;
  const auto mirror = [&](std::size_t axis) {
    first += (extents[axis] - 1) * step[axis];
    step[axis] = -step[axis];
  };
  for (std::size_t axis = 3 - axes; axis < 3; ++axis) {
    if (happens(drawn[axis], options.flips[axis + axes - 3])) mirror(axis);
  }
  const std::int64_t turns = options.random_rot90 ? number_below(drawn[3], 4) : 0;
  for (std::int64_t i = 0; i < turns; ++i) {
    std::swap(step[1], step[2]);
    mirror(1);
  }
  if (step == unmoved) return;
  const std::size_t voxels = static_cast<std::size_t>(slices * rows * columns),
                    elements = values.size() / voxels;
  thread_local std::vector<std::uint32_t> before;
  before.assign(values.begin(), values.end());
  auto to = values.begin();
  for (std::int64_t d = 0; d < slices; ++d) {
    for (std::int64_t h = 0; h < rows; ++h) {
      const std::int64_t row = first + d * step[0] + h * step[1];
      for (std::int64_t w = 0; w < columns; ++w) {
        const auto from = static_cast<std::size_t>(row + w * step[2]) * elements;
        to = std::copy_n(before.begin() + static_cast<std::ptrdiff_t>(from), elements, to);
      }
    }
  }
}

void SampleDraws::change(const FieldOptions& options, std::span<float> inputs) const {
  const Words drawn = words(changes);
  const auto unit = [](std::uint32_t word) { return static_cast<double>(Philox::uniform(word)); };
  if (!options.brightness.empty() && happens(drawn[0], options.brightness[1])) {
    const auto factor = static_cast<float>(1 + options.brightness[0] * (2 * unit(drawn[1]) - 1));
    for (float& value : inputs)
      value *= factor;
  }
  if (options.noise.empty() || !happens(drawn[2], options.noise[1])) return;
  const double deviation = options.noise[0] * unit(drawn[3]);
  for (std::size_t i = 0; i < inputs.size(); i += 2) {
    const Words noise = words(first_noise + i / 2);
    const auto [even, odd] = box_muller(noise[0], noise[1], noise[2], noise[3]);
    inputs[i] += static_cast<float>(deviation * even);
    if (i + 1 < inputs.size()) inputs[i + 1] += static_cast<float>(deviation * odd);
  }
}

}  // namespace trireme
