// SPDX-License-Identifier: Apache-2.0
#include "launch/plan/neighbours.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "launch/bench/model/calibrate.h"
#include "launch/engine/options.h"
#include "launch/plan/layout_search.h"
#include "models/config.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

constexpr const char* memory = "if memory allows";

// At most one trial: the first alternative that no other beats by 5 %.
struct Neighbour {
  std::vector<std::vector<std::string>> alternatives;  // each a list of KEY=VALUE
  std::string unless{};
};

std::vector<Neighbour> neighbours_of(const Config& config) {
  const ParallelConfig& parallel = config.parallel;
  const std::int64_t micro_batch = config.train.micro_batch;
  const auto set = [](std::string_view key, auto value) {
    return fmt::format("{}={}", key, value);
  };
  const auto half_of = [&](std::string_view key, std::int64_t ranks) -> Neighbour {
    return {{{set(key, ranks / 2), set("parallel.data", 2 * parallel.data)}}, memory};
  };
  const bool cut_freely = !micro_batch_decides_results(config);
  std::vector<Neighbour> all;
  if (!parallel.stage_layers.empty()) all.push_back({{{"parallel.stage_layers=[]"}}});
  if (parallel.pipeline > 1) {
    if (cut_freely && micro_batch % 2 == 0)
      all.push_back({{{set("train.micro_batch", micro_batch / 2)}}});
    if (parallel.chunks == 1 && parallel.schedule != ScheduleKind::zero_bubble)
      all.push_back({{{"parallel.schedule=zero-bubble"}}, memory});
    if (parallel.chunks == 1 && parallel.pipeline % 2 == 0)
      all.push_back(half_of("parallel.pipeline", parallel.pipeline));
  }
  if (cut_freely && parallel.tensor > 1 && parallel.zero < 2)
    all.push_back({{{set("train.micro_batch", 2 * micro_batch)}}, memory});
  if (parallel.tensor % 2 == 0) all.push_back(half_of("parallel.tensor", parallel.tensor));
  if (parallel.context % 2 == 0) all.push_back(half_of("parallel.context", parallel.context));
  if (parallel.data_ranks() > 1) {
    Neighbour buckets;
    for (const double times : {4, 16, 64, 256})
      buckets.alternatives.push_back(
          {fmt::format("parallel.bucket_megabytes={:.6g}", times * bucket_megabytes(config))});
    all.push_back(std::move(buckets));
  }
  return all;
}

// Seconds per step, by parts that are measured and predicted.
struct StepParts {
  double passes = 0, optimizer = 0, gradients = 0, tensor = 0, parameters = 0, waits = 0;

  static constexpr double StepParts::*all[] = {&StepParts::passes,     &StepParts::optimizer,
                                               &StepParts::gradients,  &StepParts::tensor,
                                               &StepParts::parameters, &StepParts::waits};
  [[nodiscard]] double messages() const { return gradients + tensor + parameters; }
};

StepParts measured_parts(const StepTotals& totals) {
  const double steps = 1e3 * static_cast<double>(std::max<std::int64_t>(totals.steps, 1));
  const double norms = std::max(totals[TimePart::exposed_comm] - totals[TimePart::reduce_comm] -
                                    totals[TimePart::tensor_comm] - totals[TimePart::gather_comm],
                                0.0);
  return {.passes = (totals[TimePart::forward] + totals[TimePart::backward]) / steps,
          .optimizer = (totals[TimePart::optimizer] + norms) / steps,
          .gradients = totals[TimePart::reduce_comm] / steps,
          .tensor = totals[TimePart::tensor_comm] / steps,
          .parameters = totals[TimePart::gather_comm] / steps,
          .waits = totals[TimePart::bubble] / steps};
}

StepParts predicted_parts(const plan::StepEstimate& step) {
  return {.passes = step.forward + step.backward + step.recompute,
          .optimizer = step.optimizer,
          .gradients = step.data_exposed,
          .tensor = step.tensor_exposed + step.expert_exposed + step.context_exposed,
          .parameters = step.gather_exposed,
          .waits = step.bubble + step.pipeline_exposed};
}

class FittedPlanner {
 public:
  FittedPlanner(const Config& config, const RunFacts& facts, const StepTotals& totals,
                const MachineRates& machine)
      : config_(config), measured_(measured_parts(totals)) {
    const int tensor = static_cast<int>(config.parallel.inner_ranks());
    hardware_.name = "this run";
    if (facts.on_cpu) hardware_.node = {.ranks = facts.host_ranks, .cores = facts.host_cores};
    hardware_.device.peak_flops.fill(machine.matmuls.flops);
    hardware_.links = {
        .domain = tensor, .rails = tensor, .inside = machine.tensor, .between = machine.others};
    const double steps = 1e3 * static_cast<double>(totals.steps);
    model_bench::calibrate(
        hardware_,
        std::vector<model_bench::TimedModel>{{config,
                                              {.forward = totals[TimePart::forward] / steps,
                                               .backward = totals[TimePart::backward] / steps,
                                               .optimizer = measured_.optimizer}}},
        machine.matmuls, machine.launch);
    fit_overlap();
    now_ = parts(config_);
    for (double StepParts::*part : StepParts::all)
      log::get("plan").debug("a step, ms: predicted {:.2f}, measured {:.2f}", 1e3 * now_.*part,
                             1e3 * measured_.*part);
  }

  // Seconds per step that `settings` save; empty if the config's rules refuse them.
  [[nodiscard]] std::optional<double> saved_by(const std::vector<std::string>& settings) {
    StepParts then;
    try {
      const Config given = parse_config(to_yaml(config_), "the run's config", settings);
      const int ranks = static_cast<int>(mesh_shape(config_.parallel).size());
      then = parts(resolve_config(given, planned_environment(ranks, given)));
    } catch (const Error& error) {
      if (error.code() != ExitCode::config) throw;
      return std::nullopt;
    }
    double saved = 0;
    for (double StepParts::*part : StepParts::all)
      saved += saved_of(now_.*part, then.*part, measured_.*part);
    return saved;
  }

 private:
  [[nodiscard]] StepParts parts(const Config& config) {
    return predicted_parts(plan::estimate_step(planner_.input(config), hardware_));
  }

  // The overlapped share of messages, fitted to the time that the run measured as exposed.
  void fit_overlap() {
    const auto shown = [&](double overlap) {
      hardware_.links.overlap = overlap;
      return parts(config_).messages();
    };
    const double all = shown(0), least = shown(1);
    hardware_.links.overlap =
        all > least ? std::clamp((all - measured_.messages()) / (all - least), 0.0, 1.0) : 0;
  }

  [[nodiscard]] static double saved_of(double now, double then, double measured) {
    const double scale = now > 0 ? measured / now : 1;
    return (now - then) * (now > then ? std::min(scale, 1.0) : std::max(scale, 1.0));
  }

  const Config& config_;
  StepParts measured_, now_;
  plan::Hardware hardware_;
  StepPlanner planner_;
};

}  // namespace

std::vector<Trial> neighbour_trials(const Config& config, const RunFacts& facts,
                                    const RunSummary& summary, const MachineRates& machine) {
  // The median error of the planner's estimates for CPU layouts is 3.4 %.
  constexpr double noise = 0.05, notable = 1.05;
  std::vector<Trial> trials;
  if (share_cores(facts) || !config.train.batch_ramp.empty() || !(summary.wall_seconds > 0) ||
      summary.totals.steps == 0)
    return trials;
  FittedPlanner planner(config, facts, summary.totals, machine);
  for (const Neighbour& neighbour : neighbours_of(config)) {
    Trial best;
    best.unless = neighbour.unless;
    for (const std::vector<std::string>& settings : neighbour.alternatives) {
      const auto saved = planner.saved_by(settings);
      if (!saved) continue;
      const double gain = *saved * static_cast<double>(summary.totals.steps) / summary.wall_seconds;
      log::get("plan").debug("{}: {:.1f} % of the time", fmt::join(settings, " "), 100 * gain);
      if (gain <= notable * best.gain) continue;
      best.gain = gain;
      best.setting = fmt::format("{}", fmt::join(settings, " "));
    }
    if (best.gain > noise) trials.push_back(std::move(best));
  }
  return trials;
}

}  // namespace trireme
