// SPDX-License-Identifier: Apache-2.0
#include "launch/plan/goodput.h"

#include <algorithm>
#include <cmath>

#include "runtime/plan/cluster.h"

namespace trireme {
namespace {

constexpr double minute = 60, hour = 3600;
constexpr int simulated_runs = 51;
constexpr double min_goodput = 1e-6;  // below this no run ends
// Limit on segments between checkpoints in all simulated runs.
constexpr double max_pieces = 2e6;

CheckpointPolicy policy_of(double interval, double save, const GoodputPlan& all, double step) {
  CheckpointPolicy policy{.interval = std::min(interval, all.work)};
  policy.every_steps =
      interval < all.work ? std::max<std::int64_t>(1, std::llround(interval / step)) : 0;
  if (policy.every_steps > 0) policy.interval = static_cast<double>(policy.every_steps) * step;
  // A run that saves no checkpoints still writes its weights at the end.
  const double cost = policy.every_steps > 0 ? save : 0;
  policy.goodput = plan::expected_goodput(policy.interval, cost, all.mtbf, all.restart);
  policy.wall = all.work / policy.goodput;
  policy.failures = policy.wall / all.mtbf;
  return policy;
}

// Infinite if the config saves no checkpoints.
double configured_interval(const CheckpointConfig& config, double step) {
  double interval = HUGE_VAL;
  if (config.every_steps > 0) interval = static_cast<double>(config.every_steps) * step;
  if (config.every_minutes > 0) interval = std::min(interval, minute * config.every_minutes);
  return interval;
}

Tenths spread_of(std::vector<double> values) {
  std::ranges::sort(values);
  const auto at = [&](double share) {
    return values[static_cast<std::size_t>(
        std::lround(share * static_cast<double>(values.size() - 1)))];
  };
  return {.low = at(0.1), .median = at(0.5), .high = at(0.9)};
}

// Each segment between two checkpoints is one simulation step, cut short by a failure. The mean
// step time already includes stragglers.
std::optional<GoodputPlan::Simulated> simulate(const GoodputPlan& all,
                                               const CheckpointPolicy& policy,
                                               plan::Hardware hardware, int ranks) {
  const double pieces = std::max(1.0, std::ceil(all.work / policy.interval - 1e-9));
  if (!(pieces * simulated_runs < max_pieces)) return std::nullopt;
  hardware.straggler_deviation = 0;
  const plan::StepEstimate piece{.total = all.work / pieces};
  GoodputPlan::Simulated found{.runs = simulated_runs};
  std::vector<double> wall, failures;
  for (int run = 0; run < simulated_runs; ++run) {
    const plan::RunEstimate one =
        plan::simulate_run(piece, hardware,
                           {.ranks = ranks,
                            .steps = static_cast<std::int64_t>(pieces),
                            .checkpoint_every = 1,
                            .checkpoint_seconds = policy.every_steps > 0 ? all.save : 0,
                            .seed = static_cast<std::uint64_t>(run) + 1});
    found.ended = found.ended && one.ended;
    wall.push_back(one.wall);
    failures.push_back(static_cast<double>(one.failures));
  }
  found.wall = spread_of(std::move(wall));
  found.failures = spread_of(std::move(failures));
  return found;
}

// "35 s", "12.5 minutes", "3.1 hours", "54.2 days".
std::string time_text(double seconds) {
  if (seconds < 2 * minute) return fmt::format("{:.3g} s", seconds);
  if (seconds < 2 * hour) return fmt::format("{:.1f} minutes", seconds / minute);
  if (seconds < 48 * hour) return fmt::format("{:.1f} hours", seconds / hour);
  return fmt::format("{:.1f} days", seconds / (24 * hour));
}

std::string policy_text(const CheckpointPolicy& policy) {
  if (policy.goodput < min_goodput) return "failures undo all work: the run never ends";
  if (policy.every_steps == 0)
    return fmt::format("no checkpoint: goodput {:.2f} %", 100 * policy.goodput);
  return fmt::format("{}, every {} steps: goodput {:.2f} %", time_text(policy.interval),
                     policy.every_steps, 100 * policy.goodput);
}

std::string simulated_text(const GoodputPlan::Simulated& runs) {
  if (!runs.ended)
    return fmt::format("simulated {} times: the run never ends, because failures undo its work\n",
                       runs.runs);
  return fmt::format(
      "simulated {} times: {} ({} to {} in 8 of 10), {:.0f} failures ({:.0f} to {:.0f})\n",
      runs.runs, time_text(runs.wall.median), time_text(runs.wall.low), time_text(runs.wall.high),
      runs.failures.median, runs.failures.low, runs.failures.high);
}

}  // namespace

std::optional<GoodputPlan> plan_goodput(const LayoutPlan& plan, const PlanContext& context) {
  const plan::Hardware& hardware = context.hardware;
  if (hardware.reliability.mtbf_hours <= 0) return std::nullopt;
  const int ranks = mesh_shape(plan.config.parallel).size();
  StepPlanner planner;
  const auto parameters =
      static_cast<double>(parameter_counts(planner.input(plan.config).layers).all);
  GoodputPlan found{.mtbf = plan::job_mtbf_seconds(hardware, ranks),
                    .restart = hardware.reliability.restart_seconds,
                    .save = plan::checkpoint_seconds(parameters, ranks, hardware),
                    .work = hour * cost_of(plan, context).hours};
  const double step = plan.step.total;
  if (found.save > 0) {
    const double best = plan::checkpoint_intervals(found.save, found.mtbf, found.restart).best;
    found.best = policy_of(best, found.save, found, step);
  }
  found.configured =
      policy_of(configured_interval(plan.config.checkpoint, step), found.save, found, step);
  found.simulated = simulate(found, found.best ? *found.best : found.configured, hardware, ranks);
  return found;
}

std::string describe_goodput(const LayoutPlan& plan, const PlanContext& context) {
  const auto found = plan_goodput(plan, context);
  if (!found) {
    return fmt::format("failures: unknown, {} has no reliability.mtbf_hours\n",
                       context.hardware.name);
  }
  const CheckpointPolicy& counted = found->best ? *found->best : found->configured;
  std::string text =
      fmt::format("failures: one in {} ({} rank(s), {:g} hours each)", time_text(found->mtbf),
                  mesh_shape(plan.config.parallel).size(), context.hardware.reliability.mtbf_hours);
  if (counted.goodput >= min_goodput)
    text += fmt::format(", {:.2g} expected in this run", counted.failures);
  text += "\n";
  if (found->best) {
    text += fmt::format("best checkpoint interval: {} (a save stops training for {})\n",
                        policy_text(*found->best), time_text(found->save));
  } else {
    text += fmt::format(
        "best checkpoint interval: unknown, {} has no reliability.checkpoint_bandwidth\n",
        context.hardware.name);
  }
  text += fmt::format("as configured: {}\n", policy_text(found->configured));
  if (found->simulated) text += simulated_text(*found->simulated);
  return text;
}

}  // namespace trireme
