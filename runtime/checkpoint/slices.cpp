// SPDX-License-Identifier: Apache-2.0
#include "runtime/checkpoint/slices.h"

#include <algorithm>
#include <map>

namespace trireme {
namespace {

// A cache line of floats: cuts between replicas fall on the same boundaries as ZeRO's.
constexpr std::int64_t cut_alignment = 16;

// The part of a bucket that this rank writes.
ParamLayout::Range piece_of(const ParamLayout& layout, const Bucket& bucket,
                            const ProcessMesh& mesh) {
  const std::int64_t held = layout.slice_count(bucket);
  // Of the ranks that hold the same, this one's number.
  const std::int64_t shared =
      std::int64_t{layout.zero_ranks(bucket)} * (bucket.expert ? mesh.shape().expert : 1);
  const std::int64_t ranks = mesh.shape().data / shared, here = mesh.here().data / shared;
  const std::int64_t units = (held + cut_alignment - 1) / cut_alignment;
  const std::int64_t each = (units + ranks - 1) / ranks * cut_alignment;
  const std::int64_t from = std::min(here * each, held);
  return {layout.slice_first(bucket) + from, std::min(each, held - from)};
}

}  // namespace

bool CheckpointValues::has(ValueKind kind) const {
  if (kind == ValueKind::model) return true;
  return !(kind == ValueKind::first ? first : kind == ValueKind::second ? second : average).empty();
}

std::vector<ValueKind> CheckpointValues::kinds() const {
  std::vector<ValueKind> all;
  std::ranges::copy_if(value_kinds, std::back_inserter(all),
                       [&](ValueKind kind) { return has(kind); });
  return all;
}

Blocking blocking_of(const ParamSpec& spec, const TensorSplit& split) {
  if (!is_split(spec, split)) return {1, spec.shape.count()};
  const std::int64_t outer = spec.shard_axis == 0 ? 1 : spec.shape[0];
  return {split.blocks, spec.shape.count() / outer / spec.shard_units() / split.blocks,
          spec.shard_lead};
}

std::vector<ManifestTensor> manifest_tensors(std::span<const PlacedParam> placed,
                                             const ParamSplits& splits) {
  std::vector<ManifestTensor> tensors;
  for (const PlacedParam& param : placed) {
    const ParamSpec& spec = param.spec;
    tensors.push_back({spec.name, spec.shape, spec.kind, blocking_of(spec, splits.of(spec))});
  }
  return tensors;
}

std::vector<OwnSlice> own_slices(const ParamLayout& layout, const ProcessMesh& mesh,
                                 std::span<const ManifestTensor> tensors) {
  std::map<std::string_view, std::int64_t> index;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    index.emplace(tensors[i].name, static_cast<std::int64_t>(i));
  std::vector<OwnSlice> slices;
  for (const ParamId id : layout.order()) {
    const ParamSpec& spec = layout.spec(id);
    const TensorSplit& split = layout.split(spec);
    if (spec.is_copy() || (!is_split(spec, split) && split.rank > 0)) continue;
    const auto tensor = index.find(spec.name);
    TRIREME_EXPECTS(tensor != index.end(), "parameter {} is not in the checkpoint's list",
                    spec.name);
    const ParamLayout::Range piece = piece_of(layout, layout.bucket(id), mesh);
    layout.for_each_owned_block(
        id, piece,
        [&](std::int64_t place, std::int64_t block, std::int64_t first, std::int64_t count) {
          slices.push_back(
              {{.tensor = tensor->second, .block = block, .first = first, .count = count},
               layout.bucket_of(id),
               piece.first + place});
        });
  }
  return slices;
}

Held held_of(const CheckpointValues& values, ValueKind kind, const Bucket& bucket) {
  const ParamLayout& layout = values.params.layout();
  if (kind == ValueKind::model) {
    const ParamLayout::Range kept = layout.kept(bucket);
    return {kept.first, kept.count, values.params.masters().kept(bucket)};
  }
  const std::int64_t first = layout.slice_first(bucket), count = layout.slice_count(bucket);
  if (kind == ValueKind::average) return {first, count, values.average.range(bucket.owned, count)};
  if (bucket.kind != ParamKind::weight) return {};
  const Tensor& moments = kind == ValueKind::first ? values.first : values.second;
  return {first, count, moments.range(bucket.owned, count)};
}

}  // namespace trireme
