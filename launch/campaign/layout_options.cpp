// SPDX-License-Identifier: Apache-2.0
#include "launch/campaign/layout_options.h"

#include <fmt/ranges.h>

#include <optional>
#include <set>

#include "launch/engine/data_sets.h"
#include "launch/plan/layout_search.h"
#include "launch/study/scale/study.h"
#include "models/config.h"
#include "runtime/config/batch_slices.h"

namespace trireme::campaign {
namespace {

constexpr std::int64_t tried_one_by_one = 16;

// The planner's inputs that all options share.
struct Planned {
  Config config;
  Provenance where;
  std::optional<plan::Hardware> hardware;
};

std::string layout_text(const LayoutChoice& choice) {
  std::string text = fmt::format("data={}", choice.data);
  if (choice.tensor > 1) text += fmt::format(" tensor={}", choice.tensor);
  if (choice.spatial != LayoutChoice{}.spatial)
    text += fmt::format(" spatial={}", fmt::join(choice.spatial, "x"));
  if (choice.expert > 0) text += fmt::format(" expert={}", choice.expert);
  if (choice.context > 1) text += fmt::format(" context={}", choice.context);
  if (choice.pipeline > 1) text += fmt::format(" pipeline={}", choice.pipeline);
  if (choice.zero > 0) text += fmt::format(" zero={}", choice.zero);
  if (choice.zero_group > 0) text += fmt::format(" zero_group={}", choice.zero_group);
  return text;
}

double share_of(const Config& resolved) {
  const BatchSlices slices = batch_slices(resolved);
  const std::int64_t split =
      resolved.parallel.inner_ranks() * resolved.parallel.context * resolved.parallel.pipeline;
  return static_cast<double>(slices.largest()) /
         static_cast<double>(slices.micro_batches() * split);
}

// The config under one layout, or why it does not fit.
LayoutOption option_of(const Planned& planned, const Config& config, std::int64_t nodes,
                       int ranks) {
  const Config resolved = resolve_config(
      config,
      planned.hardware ? planned_environment(ranks, *planned.hardware) : planned_environment(ranks),
      &planned.where);
  LayoutOption option{.nodes = nodes,
                      .ranks = ranks,
                      .settings = changed_settings(planned.config, config),
                      .text = layout_text(choice_of(resolved)),
                      .share = share_of(resolved)};
  if (planned.hardware) {
    StepPlanner planner;
    const LayoutPlan plan =
        plan_layout(resolved, on_nodes(*planned.hardware, ranks, static_cast<int>(nodes)), planner);
    if (!fits(plan, *planned.hardware)) {
      fail(ExitCode::config, "{} needs {} per rank, more than {} has", option.text,
           size_text(memory_needed(plan, *planned.hardware)), planned.hardware->name);
    }
    option.step_seconds = plan.step.total;
  }
  return option;
}

LayoutOption searched(const Planned& planned, std::int64_t nodes, int ranks) {
  const plan::Hardware hardware = on_nodes(*planned.hardware, ranks, static_cast<int>(nodes));
  LayoutSearch search(planned.config, ranks, hardware);
  const auto best = search.fastest(1);
  if (best.empty()) {
    fail(ExitCode::config, "none of {} layouts fits into the memory of {}", search.tried(),
         hardware.name);
  }
  const LayoutChoice choice = choice_of(best[0].config);
  return {.nodes = nodes,
          .ranks = ranks,
          .settings = changed_settings(planned.config, with_layout(planned.config, choice)),
          .text = layout_text(choice),
          .step_seconds = best[0].step.total};
}

// The fastest of the file's layouts, or the first if times are unknown.
LayoutOption listed(const Planned& planned, const CampaignFile& file, std::int64_t nodes,
                    int ranks) {
  std::optional<LayoutOption> best;
  std::string refusal = fmt::format("no layout in the list makes {} ranks", ranks);
  for (const std::string& text : file.layouts) {
    for (scale::StudyLayout layout : scale::parse_layouts(text)) {
      if (!layout.fit(ranks)) continue;
      Config config = planned.config;
      config.parallel.data = layout.mesh.sample_ranks();
      config.parallel.context = layout.mesh.context;
      config.parallel.tensor = layout.tensor();
      config.parallel.pipeline = layout.mesh.pipeline;
      config.parallel.spatial.assign(layout.spatial.begin(), layout.spatial.end());
      try {
        LayoutOption option = option_of(planned, config, nodes, ranks);
        if (!best || option.step_seconds < best->step_seconds) best = std::move(option);
      } catch (const Error& error) {
        if (error.code() != ExitCode::config) throw;
        refusal = error.what();
      }
    }
  }
  if (!best) fail(ExitCode::config, "{}", refusal);
  return *best;
}

LayoutOption option_for(const Planned& planned, const CampaignFile& file, std::int64_t nodes) {
  const auto ranks = static_cast<int>(nodes * file.ranks_per_node);
  if (!file.layouts.empty()) return listed(planned, file, nodes, ranks);
  if (planned.hardware) return searched(planned, nodes, ranks);
  return option_of(planned, planned.config, nodes, ranks);
}

Planned read_config(const CampaignFile& file) {
  Planned planned;
  with_context(file.where("config"),
               [&] { planned.config = load_config(file.config, file.set, &planned.where); });
  settle_epochs(planned.config, planned.where);
  planned.config.parallel.search = false;
  if (!planned.config.parallel.hardware.empty()) {
    planned.hardware = plan::load_hardware(planned.config.parallel.hardware);
    check_device_type(planned.config, *planned.hardware, planned.where);
  }
  return planned;
}

}  // namespace

std::vector<std::int64_t> node_counts(std::int64_t least, std::int64_t most) {
  std::set<std::int64_t> counts;
  if (most - least < tried_one_by_one) {
    for (std::int64_t nodes = least; nodes <= most; ++nodes)
      counts.insert(nodes);
  } else {
    counts = {least, most};
    for (std::int64_t power = 1; power <= most; power *= 2) {
      for (const std::int64_t nodes : {power, power + power / 2}) {
        if (nodes > least && nodes < most) counts.insert(nodes);
      }
    }
  }
  return {counts.begin(), counts.end()};
}

CampaignLayouts campaign_layouts(const CampaignFile& file) {
  const Planned planned = read_config(file);
  CampaignLayouts layouts{.steps = planned.config.train.steps,
                          .any_layout = planned.config.reproducibility == Reproducibility::layout};
  std::string refusals;
  int refused = 0;
  const auto counts = node_counts(file.min_nodes, file.max_nodes);
  for (const std::int64_t nodes : counts) {
    try {
      LayoutOption option = option_for(planned, file, nodes);
      const bool gains = layouts.options.empty() || planned.hardware ||
                         option.share < layouts.options.back().share;
      if (gains) layouts.options.push_back(std::move(option));
    } catch (const Error& error) {
      if (error.code() != ExitCode::config) throw;
      if (++refused <= 3) refusals += fmt::format("\n  {} nodes: {}", nodes, error.what());
    }
  }
  if (layouts.options.empty()) {
    fail(ExitCode::config,
         "{}: none of {} numbers of nodes from {} to {}, of {} ranks each, can train {}; change "
         "nodes, ranks_per_node or layouts:{}",
         file.where("nodes.min"), counts.size(), file.min_nodes, file.max_nodes,
         file.ranks_per_node, file.config, refusals);
  }
  return layouts;
}

std::string text_of(const CampaignLayouts& layouts) {
  const std::int64_t least = layouts.options.front().nodes, most = layouts.options.back().nodes;
  const std::string_view plural = most == 1 ? "" : "s";
  return fmt::format(
      "{} steps, {}{}", layouts.steps,
      layouts.options.size() == 1
          ? fmt::format("one layout, of {} node{}", least, plural)
          : fmt::format("{} layouts, of {} to {} nodes", layouts.options.size(), least, most),
      layouts.any_layout
          ? ""
          : "; reproducibility is not `layout`, so results depend on which jobs run");
}

}  // namespace trireme::campaign
