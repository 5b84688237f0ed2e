// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "launch/plan/goodput.h"
#include "launch/plan/message_ctas.h"
#include "models/config.h"

namespace trireme {
namespace {

using json = nlohmann::ordered_json;

json roles_json(const BytesByRole& bytes) {
  json roles = json::object();
  for (std::size_t i = 0; i < memory_roles; ++i)
    roles[std::string(name_of(static_cast<MemoryRole>(i)))] = bytes[i];
  return roles;
}

json stage_json(const StageMemory& stage, const LayoutPlan& plan, const plan::Hardware& hardware) {
  const auto lines = memory_lines(stage, plan, hardware);
  json bytes = json::object();
  for (const MemoryLine& line : lines)
    bytes[std::string(line.name)] = line.bytes;
  json kept = json::array();
  for (const ActivationShare& share : stage.kept)
    kept.push_back({{"kind", share.kind}, {"layers", share.layers}, {"bytes", share.bytes}});
  return {{"stage", stage.stage},
          {"ranks", stage.ranks},
          {"total", total_of(lines)},
          {"bytes", bytes},
          {"buffers",
           {{"device", roles_json(stage.held.device)}, {"host", roles_json(stage.held.host)}}},
          {"activations",
           {{"kept", kept},
            {"between_layers", stage.kept_between},
            {"scratch", stage.scratch},
            {"recompute_saves", stage.recompute_saves}}}};
}

json step_json(const plan::StepEstimate& step) {
  return {{"total", step.total},
          {"forward", step.forward},
          {"backward", step.backward},
          {"recompute", step.recompute},
          {"tensor_exposed", step.tensor_exposed},
          {"expert_exposed", step.expert_exposed},
          {"context_exposed", step.context_exposed},
          {"pipeline_exposed", step.pipeline_exposed},
          {"bubble", step.bubble},
          {"data_exposed", step.data_exposed},
          {"gather_exposed", step.gather_exposed},
          {"optimizer", step.optimizer},
          {"data_wait", step.data_wait},
          {"straggler", step.straggler}};
}

json policy_json(const CheckpointPolicy& policy) {
  return {{"interval_seconds", policy.interval},
          {"every_steps", policy.every_steps > 0 ? json(policy.every_steps) : json(nullptr)},
          {"goodput", policy.goodput},
          {"wall_seconds", policy.wall},
          {"failures", policy.failures}};
}

json tenths_json(const Tenths& tenths) {
  return {{"tenth", tenths.low}, {"median", tenths.median}, {"ninetieth", tenths.high}};
}

json goodput_json(const LayoutPlan& plan, const PlanContext& context) {
  const auto found = plan_goodput(plan, context);
  if (!found) return nullptr;
  json text{{"mtbf_seconds", found->mtbf},
            {"restart_seconds", found->restart},
            {"checkpoint_seconds", found->save > 0 ? json(found->save) : json(nullptr)},
            {"work_seconds", found->work},
            {"best", found->best ? policy_json(*found->best) : json(nullptr)},
            {"configured", policy_json(found->configured)}};
  if (found->simulated) {
    text["simulated"] = {{"runs", found->simulated->runs},
                         {"ended", found->simulated->ended},
                         {"wall_seconds", tenths_json(found->simulated->wall)},
                         {"failures", tenths_json(found->simulated->failures)}};
  }
  return text;
}

// Needs a described machine.
void add_times(json& text, const LayoutPlan& plan, const PlanContext& context) {
  const std::string items = traits_of(plan.config.model).item_name;
  const RunCost cost = cost_of(plan, context);
  text["memory"]["capacity"] = context.hardware.device.memory_bytes;
  text["memory"]["fits"] = fits(plan, context.hardware);
  if (plan.capacity > 0) return;
  text["step_seconds"] = step_json(plan.step);
  text["bytes_sent_per_rank"] = {
      {"data", plan.step.volumes.data},       {"data_to_other_domains", plan.step.volumes.data_out},
      {"tensor", plan.step.volumes.tensor},   {"experts", plan.step.volumes.experts},
      {"context", plan.step.volumes.context}, {"pipeline", plan.step.volumes.pipeline}};
  text["bytes_read_per_second_per_rank"] = plan.step.sample_bandwidth;
  text["nccl"] = json::array();
  for (const RolePrice& row : role_prices(plan.config, context.hardware))
    text["nccl"].push_back({{"role", name_of(row.role)},
                            {"thread_blocks", row.most > 0 ? json(row.most) : json(nullptr)},
                            {"bounded", row.bounded},
                            {"multiprocessors_left", row.left},
                            {"matmul_slowdown", row.slowdown}});
  text[items + "_per_second"] = plan.step.items_per_second;
  text["mfu"] = plan.step.mfu;
  text["run"] = {{items, cost.items},
                 {"hours", cost.hours},
                 {"rank_hours", cost.rank_hours},
                 {"price", cost.price}};
  text["goodput"] = goodput_json(plan, context);
}

json as_json(const LayoutPlan& plan, const PlanContext& context) {
  json layout = json::object();
  for (const auto& [key, value] : values_by_key(plan.config)) {
    if (key.starts_with("parallel.") || key == "train.micro_batch" || key == "train.recompute")
      layout[key] = value;
  }
  json stages = json::array();
  for (const StageMemory& stage : plan.stages)
    stages.push_back(stage_json(stage, plan, context.hardware));
  const std::string items = traits_of(plan.config.model).item_name;
  StepPlanner planner;
  const plan::StepInput input = planner.declared(plan.config);
  json text{{"hardware", context.machine ? json(context.hardware.name) : json(nullptr)},
            {"device", name_of(plan.config.device.type)},
            {"precision", name_of(plan.config.precision)},
            {"ranks", mesh_shape(plan.config.parallel).size()},
            {"flags", as_flags(context.given, choice_of(plan.config))},
            {"layout", layout},
            {"parameters", parameter_counts(input.layers).all},
            {"trained_parameters", parameter_counts(input.layers).trained},
            {"flops_per_step", plan::model_flops(input)},
            {items + "_per_step",
             plan.config.train.global_batch * traits_of(plan.config.model).items_per_sample()},
            {"memory",
             {{"needed", memory_needed(plan, context.hardware)},
              {"host_of_node", host_memory_of_node(plan, context.hardware)},
              {"stages", stages}}}};
  if (const auto rows = expert_rows(plan.config); rows && plan.capacity == 0)
    text["experts"] = {
        {"layers", rows->layers},
        {"ranks", rows->ranks},
        {"assumed_imbalance", rows->imbalance},
        {"rows",
         {{"even", rows->held.rows},
          {"assumed", rows->assumed},
          {"memory", rows->held.capacity},
          {"worst", rows->held.most}}},
        {"rounds", rows->rounds},
        {"row_bytes", {{"kept", rows->held.kept_bytes}, {"scratch", rows->held.scratch_bytes}}}};
  if (plan.capacity > 0)
    text["generate"] = {{"texts", plan.config.train.micro_batch}, {"tokens", plan.capacity}};
  if (context.machine) add_times(text, plan, context);
  return text;
}

}  // namespace

std::string plan_json(const LayoutPlan& plan, const PlanContext& context) {
  return as_json(plan, context).dump(2) + "\n";
}

std::string search_json(std::span<const LayoutPlan> best, const LayoutSearch& search,
                        const PlanContext& context) {
  json layouts = json::array();
  for (const LayoutPlan& plan : best)
    layouts.push_back(as_json(plan, context));
  return json{{"tried", search.tried()},
              {"refused", search.refused()},
              {"too_large", search.too_large()},
              {"layouts", layouts}}
             .dump(2) +
         "\n";
}

}  // namespace trireme
