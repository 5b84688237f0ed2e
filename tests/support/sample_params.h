// SPDX-License-Identifier: Apache-2.0
// A small chain's parameters with everything that layouts treat differently. Values are functions
// of the logical element, so any split can be checked against any other.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/philox.h"
#include "runtime/comm/process_mesh.h"
#include "runtime/nn/param_store.h"

namespace trireme::test {

// Units of the chain. Every split axis can be cut into 1, 2, 4 or 8 blocks; there are 8 experts.
[[nodiscard]] inline std::vector<std::vector<ParamSpec>> sample_units() {
  const auto weight = [](std::string name, Shape shape, int axis, int parts = 1, int lead = 1) {
    return ParamSpec{.name = std::move(name),
                     .shape = shape,
                     .init = Init::normal(0.5F),
                     .decay = shape.rank() > 1,
                     .matrix = shape.rank() > 1,
                     .shard_axis = axis,
                     .shard_parts = parts,
                     .shard_lead = lead};
  };
  const auto hidden = [&](auto... arguments) {
    ParamSpec spec = weight(arguments...);
    spec.hidden = true;
    return spec;
  };
  const auto experts = [&](auto... arguments) {
    ParamSpec spec = weight(arguments..., 0);
    spec.expert = true;
    return spec;
  };
  const auto tied = [&](std::string name) {
    ParamSpec spec = weight(std::move(name), {24, 5}, 0);
    spec.tie = "table";
    return spec;
  };
  const auto statistic = [](std::string name, std::int64_t count) {
    return ParamSpec{.name = std::move(name),
                     .shape = {count},
                     .init = Init::constant(1),
                     .kind = ParamKind::statistic};
  };
  return {{tied("table"), experts("experts.weight", Shape{8, 7, 5}),
           experts("experts.bias", Shape{8, 3})},
          {hidden("a.weight", Shape{7, 24}, 1), weight("a.bias", {24}, 0),
           weight("a.scale", {5}, -1), statistic("a.running", 9)},
          {weight("b.qkv.weight", {6, 72}, 1, 3), weight("b.qkv.bias", {72}, 0, 3),
           hidden("b.grouped.weight", Shape{40, 3}, 0, 3, 3)},
          {weight("c.weight", {31}, -1), statistic("c.running", 3)},
          {hidden("d.weight", Shape{48, 3}, 0), weight("d.bias", {3}, -1)},
          {tied("head")}};
}

// Declares units [first, last), with chunk starts at `chunks`.
template <typename Store>
void declare_sample(Store& store, int first, int last, const std::vector<int>& chunks = {}) {
  const auto units = sample_units();
  for (int unit = first; unit < last; ++unit) {
    if (std::ranges::find(chunks, unit) != chunks.end()) store.open_chunk();
    store.open_unit();
    for (const ParamSpec& spec : units[static_cast<std::size_t>(unit)])
      store.declare(spec);
  }
}
template <typename Store>
void declare_sample(Store& store) {
  declare_sample(store, 0, static_cast<int>(sample_units().size()));
}

// A mesh rank's part: its stage of the chain, its tensor blocks, its ZeRO slices.
[[nodiscard]] inline ParamStore sample_part(Device& device, const MeshShape& mesh,
                                            const MeshCoordinates& at, int blocks,
                                            StoreOptions options) {
  const int units = static_cast<int>(sample_units().size());
  const int ranks = mesh.expert * mesh.tensor;
  ParamStore store(
      {{.ranks = mesh.tensor, .rank = at.tensor, .blocks = blocks},
       {.ranks = ranks, .rank = at.data % mesh.expert * mesh.tensor + at.tensor, .blocks = ranks}},
      /*separate_ties=*/true);
  declare_sample(store, at.pipeline * units / mesh.pipeline,
                 (at.pipeline + 1) * units / mesh.pipeline);
  options.zero.ranks = mesh.shard;
  options.zero.rank = at.data % mesh.shard;
  options.bucket_elements = 150;
  store.allocate(device, options);
  return store;
}

// In (-2, 2), with enough digits that different orders of a sum differ.
[[nodiscard]] inline float sample_value(std::string_view name, std::int64_t element,
                                        std::uint64_t salt = 0) {
  const auto words = Philox::keyed(salt, RandomPurpose::test)(stable_id(name.data(), name.size()),
                                                              static_cast<std::uint64_t>(element));
  const float scale = (words[0] & 1U) != 0 ? 2.0F : 0.125F;
  return scale * (2 * Philox::uniform(words[1]) - 1);
}

// visit(place, spec, element): `element` of the whole parameter is at `place` of this rank's slice.
template <typename Visit>
void for_each_owned(const ParamLayout& layout, const Bucket& bucket, Visit&& visit) {
  for (const ParamId id : layout.order()) {
    if (&layout.buckets()[static_cast<std::size_t>(layout.bucket_of(id))] != &bucket) continue;
    const ParamSpec& spec = layout.spec(id);
    for_each_run(spec, layout.split(spec), [&](auto stored, auto logical, auto count) {
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t place = layout.offset(id) + stored + i - layout.slice_first(bucket);
        if (place >= 0 && place < layout.slice_count(bucket)) visit(place, spec, logical + i);
      }
    });
  }
}

using ElementValue = std::function<float(const ParamSpec&, std::int64_t)>;

// Fills this rank's slice; padding is zero.
inline void fill_owned(const ParamLayout& layout, const Bucket& bucket, const Tensor& slice,
                       const ElementValue& value) {
  float* const data = slice.as<float>();
  std::fill_n(data, slice.count(), 0.0F);
  for_each_owned(layout, bucket, [&](std::int64_t place, const ParamSpec& spec, std::int64_t i) {
    data[place] = value(spec, i);
  });
}

}  // namespace trireme::test
