// SPDX-License-Identifier: Apache-2.0
#include "launch/plan/report.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "launch/engine/options.h"
#include "launch/plan/goodput.h"
#include "launch/plan/message_ctas.h"
#include "launch/plan/start_plan.h"
#include "runtime/config/batch_ramp.h"
#include "runtime/config/batch_slices.h"

namespace trireme {
namespace {

// Stages with equal memory share a row.
struct StageRow {
  std::vector<int> stages;
  int ranks = 0;
  std::vector<MemoryLine> lines;
};

std::vector<StageRow> rows_of(const LayoutPlan& plan, const plan::Hardware& hardware) {
  std::vector<StageRow> rows;
  for (const StageMemory& stage : plan.stages) {
    const auto lines = memory_lines(stage, plan, hardware);
    const auto same = [&](const StageRow& row) {
      return std::ranges::equal(row.lines, lines, {}, &MemoryLine::bytes, &MemoryLine::bytes);
    };
    auto row = std::ranges::find_if(rows, same);
    if (row == rows.end()) row = rows.insert(row, {.stages = {}, .ranks = 0, .lines = lines});
    row->stages.push_back(stage.stage);
    row->ranks += stage.ranks;
  }
  return rows;
}

std::string label_of(StageRow row) {
  std::ranges::sort(row.stages);
  return fmt::format("stage {} ({} rank{})", fmt::join(row.stages, ","), row.ranks,
                     row.ranks == 1 ? "" : "s");
}

// Omits rows of zeros.
std::string memory_table(const std::vector<StageRow>& rows) {
  std::size_t width = 0;
  for (const StageRow& row : rows)
    width = std::max(width, label_of(row).size());
  const auto shown = [&](std::size_t i) {
    return std::ranges::any_of(rows, [i](const StageRow& row) { return row.lines[i].bytes > 0; });
  };
  std::string text = fmt::format("{:<{}}", "buffers per rank", width);
  const auto& names = rows.front().lines;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (shown(i))
      text +=
          fmt::format("{:>{}}", names[i].name, std::max<std::size_t>(13, names[i].name.size() + 2));
  }
  text += fmt::format("{:>13}\n", "total");
  for (const StageRow& row : rows) {
    text += fmt::format("{:<{}}", label_of(row), width);
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (shown(i)) {
        text += fmt::format("{:>{}}", size_text(row.lines[i].bytes),
                            std::max<std::size_t>(13, names[i].name.size() + 2));
      }
    }
    text += fmt::format("{:>13}\n", size_text(total_of(row.lines)));
  }
  return text;
}

std::string activations_text(const StageMemory& stage) {
  std::vector<std::string> parts;
  for (const ActivationShare& share : stage.kept) {
    if (share.bytes == 0) continue;
    parts.push_back(fmt::format("{}{} {}", share.kind,
                                share.layers > 1 ? fmt::format(" ({})", share.layers) : "",
                                size_text(share.bytes)));
  }
  parts.push_back(fmt::format("between layers {}", size_text(stage.kept_between)));
  parts.push_back(fmt::format("scratch {}", size_text(stage.scratch)));
  std::string text =
      fmt::format("activations of stage {}: {}", stage.stage, fmt::join(parts, ", "));
  if (stage.recompute_saves > 0)
    text += fmt::format("; recomputation saves {}", size_text(stage.recompute_saves));
  return text + "\n";
}

std::string start_text(const LayoutPlan& plan) {
  const int ranks = mesh_shape(plan.config.parallel).size();
  if (ranks == 1 || plan.capacity > 0 || device_type(plan.config) == DeviceType::cpu) return {};
  return describe(plan_start(ranks, plan.stages.front().groups));
}

std::string host_text(const LayoutPlan& plan, const PlanContext& context) {
  const StageMemory& stage = plan.stages.front();
  const std::uint64_t host = host_memory_of_rank(stage, plan, context.hardware);
  if (host == 0 || device_type(plan.config) == DeviceType::cpu) return {};
  std::string text = fmt::format(
      "page-locked host memory{}: {} a rank",
      stage.held.memory_checkpoint > 0 ? " and in-memory checkpoints" : "", size_text(host));
  if (context.machine)
    text += fmt::format(", {} a node", size_text(host_memory_of_node(plan, context.hardware)));
  if (const double there = context.hardware.node.memory_bytes; there > 0)
    text += fmt::format(" of {}", size_text(static_cast<std::uint64_t>(there)));
  return text + "\n";
}

// For a rank's memory.
std::string left_out(const LayoutPlan& plan, const PlanContext& context) {
  if (device_type(plan.config) == DeviceType::cpu)
    return "only buffers: a rank's resident memory also has the program, its libraries and their "
           "memory, which is not predicted; a run logs it, report and top show it\n";
  return context.machine ? "" : "without the memory of CUDA and its libraries\n";
}

std::string verdict(const LayoutPlan& plan, const plan::Hardware& hardware) {
  const auto capacity = static_cast<std::uint64_t>(hardware.device.memory_bytes);
  if (!fits(plan, hardware)) return describe_overflow(plan, hardware) + "\n";
  return fmt::format("fits into the {} of {}: {} free\n", size_text(capacity), hardware.name,
                     size_text(capacity - memory_needed(plan, hardware)));
}

std::string step_text(const LayoutPlan& plan) {
  const plan::StepEstimate& step = plan.step;
  const std::string_view inner = inner_axis(plan.config.parallel.cuts_samples());
  const std::pair<std::string, double> parts[] = {
      {"forward", step.forward},
      {"backward", step.backward},
      {"recomputation", step.recompute},
      {fmt::format("{} messages", inner), step.tensor_exposed},
      {"rows of experts", step.expert_exposed},
      {"context messages", step.context_exposed},
      {"pipeline messages", step.pipeline_exposed},
      {"pipeline bubble", step.bubble},
      {"gradient messages", step.data_exposed},
      {"parameter messages", step.gather_exposed},
      {"optimizer", step.optimizer},
      {"data", step.data_wait},
      {"stragglers", step.straggler}};
  std::string text = fmt::format("step time {:.1f} ms:", 1e3 * step.total);
  const char* separator = " ";
  for (const auto& [name, seconds] : parts) {
    if (seconds < 5e-5 * step.total) continue;
    text += fmt::format("{}{} {:.1f}", separator, name, 1e3 * seconds);
    separator = ", ";
  }
  if (plan.config.parallel.pipeline > 1)
    text += fmt::format("; bubble {:.1f} %", 100 * step.bubble / step.total);
  const auto megabytes = [](double bytes) { return 1e-6 * bytes; };
  const auto if_sent = [&](std::string_view group, double bytes) {
    return bytes > 0 ? fmt::format("{} group {:.1f} MB, ", group, megabytes(bytes)) : "";
  };
  return text +
         fmt::format(
             "\nsent by a rank in a step: data group {:.1f} MB ({:.1f} MB to other domains), "
             "{} group {:.1f} MB, {}{}pipeline group {:.1f} MB\n",
             megabytes(step.volumes.data), megabytes(step.volumes.data_out), inner,
             megabytes(step.volumes.tensor), if_sent("experts'", step.volumes.experts),
             if_sent("context", step.volumes.context), megabytes(step.volumes.pipeline));
}

// The planner's choices for open settings, or "".
std::string decisions(const LayoutPlan& plan, const PlanContext& context) {
  const Config& config = plan.config;
  std::vector<std::string> parts;
  if (context.given.precision == Precision::automatic)
    parts.push_back(fmt::format("precision: {}", name_of(config.precision)));
  if (context.given.device.type == DeviceChoice::automatic)
    parts.push_back(fmt::format("device.type: {}", name_of(config.device.type)));
  if (parts.empty()) return {};
  const std::string place =
      context.machine ? fmt::format("as on {}", context.hardware.name)
                      : std::string("as on this host; --set device.type=cuda plans for GPUs");
  return fmt::format("auto is planned as {} ({})\n", fmt::join(parts, ", "), place);
}

std::string heading(const LayoutPlan& plan, const PlanContext& context) {
  const Config& config = plan.config;
  const ParallelConfig& parallel = config.parallel;
  StepPlanner planner;
  const auto input = planner.declared(config);
  const auto samples = config.train.global_batch;
  std::string text = fmt::format(
      "{} of {} in {} on {} rank(s): {}, ZeRO {}, "
      "recompute {}",
      config.model.family, text_of(parameter_counts(input.layers)), name_of(config.precision),
      input.mesh.size(), mesh_text(parallel), zero_text(parallel), name_of(config.train.recompute));
  if (parallel.pipeline > 1) {
    text += fmt::format(", schedule {}", name_of(parallel.schedule));
    if (parallel.chunks > 1) text += fmt::format(" of {} chunks", parallel.chunks);
  }
  if (parallel.sequence) text += ", sequence parallel";
  if (plan.capacity > 0)
    return text +
           fmt::format("\n{} texts of {} tokens at a time on each copy of the model\n",
                       config.train.micro_batch, plan.capacity) +
           decisions(plan, context) + "\n";
  const BatchSlices slices = batch_slices(config);
  text += fmt::format("\na step: {} {}, {:.3g} FLOPs, ", samples * input.items_per_sample,
                      traits_of(config.model).item_name, plan::model_flops(input));
  text += slices.equal()
              ? fmt::format("{} micro-batches of {} on each data-parallel rank", slices.largest(),
                            config.train.micro_batch)
              : fmt::format(
                    "{} micro-batches of {}, of data ranks: {}; step time and memory are "
                    "the first one's",
                    slices.micro_batches(), config.train.micro_batch, slices.to_string());
  return text + "\n" + decisions(plan, context) + "\n";
}

std::string cost_text(const LayoutPlan& plan, const PlanContext& context) {
  const std::string items = traits_of(plan.config.model).item_name;
  const RunCost cost = cost_of(plan, context);
  const auto rows = expert_rows(plan.config);
  const std::string assumption = rows ? " with " + rows->assumption() : "";
  std::string text = fmt::format(
      "{:.0f} {}/s{}, MFU {:.1f} %, a rank reads {:.1f} MB/s of samples\n"
      "{:.4g} {}: {:.1f} hours, {:.1f} rank-hours",
      plan.step.items_per_second, items, assumption, 100 * plan.step.mfu,
      1e-6 * plan.step.sample_bandwidth, cost.items, items, cost.hours, cost.rank_hours);
  if (cost.price > 0) {
    text += fmt::format(", price {:.2f} at {} per rank-hour", cost.price,
                        context.hardware.price_per_hour);
  }
  return text + "\n";
}

}  // namespace

RunCost cost_of(const LayoutPlan& plan, const PlanContext& context) {
  const Config& config = plan.config;
  const double of_run =
      static_cast<double>(batch_ramp(config.train).samples_before(config.train.steps)) *
      static_cast<double>(traits_of(config.model).items_per_sample());
  RunCost cost{.items = context.budget > 0 ? context.budget : of_run};
  cost.hours = cost.items / plan.step.items_per_second / 3600;
  cost.rank_hours = cost.hours * mesh_shape(config.parallel).size();
  cost.price = cost.rank_hours * context.hardware.price_per_hour;
  return cost;
}

std::string describe_overflow(const LayoutPlan& plan, const plan::Hardware& hardware) {
  const auto line = overflow(plan, hardware);
  if (!line) {
    TRIREME_EXPECTS(!fits(plan, hardware), "the plan fits");
    return fmt::format(
        "the ranks of a node need {} of host memory (copies of checkpoints, batches, NCCL's host "
        "buffers), a node of {} has {}; start fewer ranks on each node, lower data.prefetch, "
        "or write no checkpoints (checkpoint.every_steps: 0, in_memory_every_steps: 0)",
        size_text(host_memory_of_node(plan, hardware)), hardware.name,
        size_text(static_cast<std::uint64_t>(hardware.node.memory_bytes)));
  }
  return fmt::format("stage {} needs {} a rank, {} has {}: {} overflow{}",
                     plan.stages.front().stage, size_text(memory_needed(plan, hardware)),
                     hardware.name,
                     size_text(static_cast<std::uint64_t>(hardware.device.memory_bytes)),
                     line->name, line->name.ends_with('s') ? "" : "s");
}

std::string describe_plan(const LayoutPlan& plan, const PlanContext& context) {
  std::string text = heading(plan, context) + memory_table(rows_of(plan, context.hardware)) +
                     activations_text(plan.stages.front());
  if (const auto rows = expert_rows(plan.config); rows && plan.capacity == 0)
    text += describe(*rows);
  text += host_text(plan, context) + start_text(plan);
  text += left_out(plan, context);
  if (plan.capacity > 0 && context.machine) return text + verdict(plan, context.hardware);
  if (!context.machine)
    return text +
           "--hardware FILE says whether it fits and how long a step takes; see configs/hardware\n";
  return text + verdict(plan, context.hardware) + "\n" + step_text(plan) +
         describe_roles(plan.config, context.hardware) + cost_text(plan, context) +
         describe_goodput(plan, context);
}

std::string describe_search(std::span<const LayoutPlan> best, const LayoutSearch& search,
                            const PlanContext& context) {
  std::string text = fmt::format(
      "{} layouts: {} refused by the config's rules, at least {} too large for {}\n\n"
      "       step    {:>11}    MFU       memory\n",
      search.tried(), search.refused(), search.too_large(), context.hardware.name,
      traits_of(context.given.model).item_name + "/s");
  int place = 0;
  for (const LayoutPlan& plan : best) {
    text += fmt::format("{:>2} {:8.1f} ms {:>11.0f} {:5.1f} % {:>12}  {}\n", ++place,
                        1e3 * plan.step.total, plan.step.items_per_second, 100 * plan.step.mfu,
                        size_text(memory_needed(plan, context.hardware)),
                        as_flags(context.given, choice_of(plan.config)));
  }
  if (const auto rows = best.empty() ? std::nullopt : expert_rows(best[0].config))
    text += rows->assumption() + "\n";
  return text;
}

}  // namespace trireme
