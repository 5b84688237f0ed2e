// SPDX-License-Identifier: Apache-2.0
// FieldDataset's patches of samples, and changes in training.
#include <fmt/ranges.h>

#include <algorithm>

#include "data/fields/field_dataset.h"
#include "runtime/base/error.h"

namespace trireme {

void FieldDataset::check_patches() const {
  const bool maps = options_.predicted.kind == TargetKind::pixels;
  if (options_.foreground_share > 0 && !maps)
    fail(ExitCode::config,
         "data.foreground_share: {} has no effect: the model does not predict maps of classes; "
         "remove it",
         options_.foreground_share);
  if (options_.random_rot90 && shape_->height() != shape_->width())
    fail(ExitCode::config,
         "data.random_rot90: true with samples of {} rows and {} columns; turns need as many of "
         "both: remove it, or set model.image_size and model.image_width to one number",
         shape_->height(), shape_->width());
  if (!options_.patches) return;
  const Voxel patch = shape_->extents();
  Voxel least = shape_->extents_of(units_.front().inputs().front());
  const UnitFields* small = nullptr;
  for (const UnitFields& unit : units_) {
    const Voxel extents = shape_->extents_of(unit.inputs().front());
    for (std::size_t i = 0; i < patch.size(); ++i) {
      if (extents[i] < patch[i] && small == nullptr) small = &unit;
      least[i] = std::min(least[i], extents[i]);
    }
  }
  if (small == nullptr) return;
  const auto text = [&](const Voxel& extents) {
    return fmt::format(
        "{}", fmt::join(extents.begin() + (shape_->is_volume() ? 0 : 1), extents.end(), " x "));
  };
  fail(ExitCode::data,
       "{}: data.patches: true: samples are {}, smaller than the model's {}; leave such files out, "
       "or set {}model.image_size and model.image_width to at most {}, which fits all samples",
       small->name(), text(shape_->extents_of(small->inputs().front())), text(patch),
       shape_->is_volume() ? "model.depth, " : "", text(least));
}

Voxel FieldDataset::extents_of(std::int64_t index) const {
  return shape_->extents_of(find(index).unit.inputs().front());
}

Voxel FieldDataset::centre_of(std::int64_t index) const {
  Voxel first = extents_of(index);
  for (std::size_t i = 0; i < first.size(); ++i)
    first[i] = (first[i] - shape_->extents()[i]) / 2;
  return first;
}

void FieldDataset::read_patch(std::int64_t index, const Voxel& first, std::span<std::byte> inputs,
                              std::span<std::int32_t> targets) const {
  if (!targets.empty()) check_request(index, inputs, targets);
  const Voxel whole = extents_of(index), patch = shape_->extents();
  for (std::size_t i = 0; i < patch.size(); ++i)
    TRIREME_EXPECTS(first[i] >= 0 && first[i] + patch[i] <= whole[i],
                    "{} from {} of {} along axis {}", patch[i], first[i], whole[i], i);
  const SampleShape shape = shape_->part({first, patch});
  try {
    read_part(find(index), shape, shape, inputs, targets);
  } catch (const DamagedChunk& error) {
    skip(index, error, inputs, targets);
  }
}

Voxel FieldDataset::patch_of(const SampleDraws& draws, std::int64_t index) const {
  const Voxel whole = extents_of(index), patch = shape_->extents();
  if (!draws.on_foreground(options_.foreground_share)) return draws.place(whole, patch);
  const Place place = find(index);
  const auto voxels = foreground_.of(reader_, place.unit, shape_->part({{}, whole}), place.number,
                                     index, size_, options_.ignored_class);
  if (voxels->empty()) return draws.place(whole, patch);
  const auto voxel = static_cast<std::int64_t>((*voxels)[draws.voxel_of(voxels->size())]);
  const std::int64_t row = voxel / whole[2];
  return draws.place_around({row / whole[1], row % whole[1], voxel % whole[2]}, whole, patch);
}

void FieldDataset::read_in_epoch(std::int64_t epoch, std::int64_t index,
                                 std::span<std::byte> inputs,
                                 std::span<std::int32_t> targets) const {
  if (!options_.random || !options_.varies()) return read(index, inputs, targets);
  const SampleDraws draws(options_.seed, epoch, index);
  if (options_.patches) {
    try {
      read_patch(index, patch_of(draws, index), inputs, targets);
    } catch (const DamagedChunk& error) {  // in the rest of the map
      return skip(index, error, inputs, targets);
    }
  } else {
    read(index, inputs, targets);
  }
  const std::span values(reinterpret_cast<float*>(inputs.data()), inputs.size() / sizeof(float));
  const auto bits = [](auto of) {
    return std::span(reinterpret_cast<std::uint32_t*>(of.data()), of.size());
  };
  draws.move(options_, read_->extents(), bits(values));
  if (options_.predicted.kind == TargetKind::pixels)
    draws.move(options_, shape_->extents(), bits(targets));
  draws.change(options_, values);
}

}  // namespace trireme
