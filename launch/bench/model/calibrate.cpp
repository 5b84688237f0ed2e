// SPDX-License-Identifier: Apache-2.0
#include "launch/bench/model/calibrate.h"

#include <cmath>

#include "launch/plan/step_plan.h"
#include "models/gpt/gpt.h"

namespace trireme::model_bench {
namespace {

// The value in `low` to `high` where `below` turns false.
template <typename Below>
double solve(double low, double high, Below&& below) {
  for (int i = 0; i < 60; ++i) {
    const double middle = std::sqrt(low * high);
    (below(middle) ? low : high) = middle;
  }
  return high;
}

// A timed model and its planner inputs.
struct Target {
  explicit Target(const TimedModel& model)
      : input(StepPlanner().input(model.config)),
        passes(model.seconds.forward + model.seconds.backward),
        optimizer(model.seconds.optimizer) {}

  // Predicted time of the passes over the measured one.
  [[nodiscard]] double ratio(const plan::Hardware& hardware) const {
    const plan::StepEstimate step = plan::estimate_step(input, hardware);
    return (step.forward + step.backward + step.recompute) / passes;
  }

  plan::StepInput input;
  double passes, optimizer;
};

double& peak_of(plan::Hardware& hardware, const Target& target) {
  return hardware.device.peak_flops[static_cast<std::size_t>(target.input.precision)];
}

// The optimizer's time is bytes over bandwidth plus launches.
void fit_bandwidth(plan::Hardware& hardware, const Target& target) {
  const auto optimizer_at = [&](double bandwidth) {
    hardware.device.memory_bandwidth = bandwidth;
    return plan::estimate_step(target.input, hardware).optimizer;
  };
  hardware.efficiency.memory = 1;
  const double with_launches = optimizer_at(1e12);
  const double traffic = 2e12 * (with_launches - optimizer_at(2e12));
  const double launches = with_launches - traffic / 1e12;
  hardware.device.memory_bandwidth =
      traffic / std::max(target.optimizer - launches, 1e-3 * target.optimizer);
}

void set_share(plan::Hardware& hardware, double share) {
  plan::Efficiency& efficiency = hardware.efficiency;
  efficiency.matmul = efficiency.attention = efficiency.convolution = share;
}

// The share of the peak where `too_slow` turns false.
template <typename TooSlow>
void fit_share(plan::Hardware& hardware, TooSlow&& too_slow) {
  set_share(hardware, solve(1e-3, 1e3, [&](double share) {
              set_share(hardware, share);
              return too_slow();
            }));
}

// Fits the share to the larger model for each half dimension, and that dimension to the smaller.
void fit_two_sizes(plan::Hardware& hardware, const Target& small, const Target& large) {
  const auto fit_large = [&](double half) {
    hardware.efficiency.half_dimension = half;
    fit_share(hardware, [&] { return large.ratio(hardware) > 1; });
  };
  fit_large(0);
  if (small.ratio(hardware) < 1) {
    constexpr double min = 1e-3, max = 1e4;
    fit_large(solve(min, max, [&](double half) {
      fit_large(half);
      return small.ratio(hardware) < 1;
    }));
    return;
  }
  fit_share(hardware, [&] { return small.ratio(hardware) * large.ratio(hardware) > 1; });
}

}  // namespace

std::optional<Config> larger_model(const Config& config) {
  constexpr std::int64_t width = 768, head_width = 64, context = 512;
  if (config.model.family != gpt2_name || config.model.as<GptOptions>().hidden >= width) return {};
  Config larger = config;
  auto& model = larger.model.as<GptOptions>();
  model.layers = 1;
  model.hidden = width;
  model.heads = width / head_width;
  model.context = context;
  larger.train.global_batch /= config.train.micro_batch;
  larger.train.micro_batch = 1;
  larger.train.batch_ramp.clear();
  return larger;
}

void calibrate(plan::Hardware& hardware, std::span<const TimedModel> models,
               const MatmulRates& matmuls, double launch) {
  const Target small(models.front()), large(models.back());
  hardware.device.launch_seconds = launch;
  hardware.efficiency.attention_64 = 0;
  hardware.efficiency.half_dimension = matmuls.half_dimension;
  double& peak = peak_of(hardware, large);
  peak = matmuls.flops;
  fit_bandwidth(hardware, large);
  if (models.size() > 1) {
    fit_two_sizes(hardware, small, large);
  } else {
    fit_share(hardware, [&] { return small.ratio(hardware) > 1; });
  }
  // A share above 1 raises the peak: the model's matmuls are faster than the square ones.
  const double share = hardware.efficiency.matmul;
  peak *= std::max(1.0, share);
  set_share(hardware, std::min(1.0, share));
}

void calibrate_peak(plan::Hardware& hardware, const TimedModel& model) {
  const Target target(model);
  double& peak = peak_of(hardware, target);
  peak = solve(1e6, 1e18, [&](double flops) {
    peak = flops;
    return target.ratio(hardware) > 1;
  });
}

}  // namespace trireme::model_bench
