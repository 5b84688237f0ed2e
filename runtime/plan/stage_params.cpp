// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/stage_params.h"

#include "runtime/base/dtype.h"

namespace trireme::plan {
namespace {

bool vectors_apart(const StepInput& input) {
  return input.zero >= 1 && input.build.compute != DType::f32 && input.engine.rounded_gathers;
}

StageLayout lay_out(const StepInput& input, const StageUnits& units) {
  ParamLayout layout({input.build.tensor, input.build.experts.split}, input.separate_ties);
  int chunks = 0;
  for (std::size_t unit = 0; unit < units.layers.size(); ++unit) {
    for (; chunks <= units.chunks[unit]; ++chunks)
      layout.open_chunk();
    layout.open_unit();
    for (const ParamSpec& spec : input.layers[static_cast<std::size_t>(units.layers[unit])].params)
      layout.declare(spec);
  }
  layout.lay_out({.stage = input.zero,
                  .ranks = input.mesh.shard,
                  .rank = 0,
                  .vectors_apart = vectors_apart(input)},
                 input.bucket_elements);
  return {{layout.buckets().begin(), layout.buckets().end()},
          static_cast<double>(layout.trained_elements()),
          static_cast<double>(layout.owned_trained_elements())};
}

}  // namespace

StageUnits units_of(const StepInput& input, int stage) {
  StageUnits units;
  for (int chunk = 0; chunk < input.schedule.chunks; ++chunk) {
    const auto at = static_cast<std::size_t>(virtual_stage(input.schedule, stage, chunk));
    for (int layer = input.stages.first_layer[at]; layer < input.stages.first_layer[at + 1];
         ++layer) {
      units.layers.push_back(layer);
      units.chunks.push_back(chunk);
    }
  }
  return units;
}

const StageLayout& layout_of(const StepInput& input, const StageUnits& units, StepMemo& memo) {
  std::vector<std::int64_t> key{input.zero,
                                input.mesh.shard,
                                vectors_apart(input),
                                input.bucket_elements,
                                input.separate_ties,
                                input.build.tensor.ranks,
                                input.build.tensor.blocks,
                                input.build.experts.split.ranks,
                                input.build.experts.split.blocks};
  for (std::size_t unit = 0; unit < units.layers.size(); ++unit) {
    const auto layer = static_cast<std::size_t>(units.layers[unit]);
    // Without kinds nothing is known to be alike.
    key.push_back(input.kinds.empty() ? static_cast<std::int64_t>(layer) : input.kinds[layer]);
    key.push_back(units.chunks[unit]);
  }
  const auto [found, fresh] = memo.layouts.try_emplace(std::move(key));
  if (fresh) found->second = lay_out(input, units);
  return found->second;
}

double elements_of_stage(const StepInput& input, int stage, StepMemo& memo) {
  return layout_of(input, units_of(input, stage), memo).elements;
}

}  // namespace trireme::plan
