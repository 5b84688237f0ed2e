// SPDX-License-Identifier: Apache-2.0
// Steps and hardware that the tests of the planner share.
#pragma once

#include "tests/plan/transformer_work.h"

namespace trireme::plan::test {

struct PlanShape {
  Transformer model{};
  MeshShape mesh{};
  int micro_batch = 1, micro_batches = 1;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  int chunks = 1;
  std::vector<std::int64_t> stage_layers{};  // empty = balanced by FLOPs
  int zero = 0;
  bool sequence = false;
  Recompute recompute = Recompute::none;
  Precision precision = Precision::fp32;
  SystemTraits engine{};
};

inline StepInput plan_input(const PlanShape& shape) {
  StepInput input;
  input.build = {.compute = shape.precision == Precision::fp32 ? DType::f32 : DType::bf16,
                 .micro_batch = shape.micro_batch,
                 .training = true,
                 .recompute = shape.recompute,
                 .split_backward = shape.schedule == ScheduleKind::zero_bubble,
                 .tensor = {.ranks = shape.mesh.tensor, .rank = 0, .blocks = shape.mesh.tensor},
                 .sums = {.sequence = shape.sequence},
                 .fp8 = {.on = shape.precision == Precision::fp8}};
  input.layers = transformer_layers(shape.model, input.build);
  input.mesh = shape.mesh;
  if (shape.zero > 0 && shape.mesh.shard == 1) input.mesh.shard = shape.mesh.data;
  input.schedule = {.kind = shape.schedule,
                    .stages = shape.mesh.pipeline,
                    .micro_batches = shape.micro_batches,
                    .chunks = shape.chunks};
  input.stages = plan_stages(input.layers, input.schedule, shape.stage_layers);
  input.precision = shape.precision;
  input.zero = shape.zero;
  input.separate_ties = shape.mesh.pipeline > 1 || shape.zero >= 2;
  input.engine = shape.engine;
  for (const LayerSummary& layer : input.layers)
    input.work.push_back(work_of(layer, shape.model, input.build, shape.precision, shape.engine));
  input.items_per_sample = input.rows_per_sample = shape.model.context;
  return input;
}

// configs/hardware/NAME.yaml; tests run from the repository root.
inline Hardware hardware_file(const std::string& name) {
  return load_hardware("configs/hardware/" + name + ".yaml");
}

}  // namespace trireme::plan::test
