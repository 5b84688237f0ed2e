// SPDX-License-Identifier: Apache-2.0
#include "launch/plan/layout_search.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <tuple>

#include "data/pack/progress.h"
#include "launch/engine/options.h"
#include "models/config.h"
#include "runtime/config/rules/rules.h"

namespace trireme {
namespace {

constexpr std::array<std::int64_t, 8> chunk_counts = {2, 3, 4, 6, 8, 12, 16, 24};

std::vector<std::int64_t> divisors(std::int64_t value, std::int64_t most) {
  std::vector<std::int64_t> found;
  for (std::int64_t divisor = 1; divisor <= most; ++divisor) {
    if (value % divisor == 0) found.push_back(divisor);
  }
  return found;
}
std::vector<std::int64_t> divisors(std::int64_t value) {
  return divisors(value, value);
}

// Equal samples on all data ranks if possible; else whole micro-batches for each.
std::vector<std::int64_t> micro_batch_sizes(std::int64_t global_batch, std::int64_t data) {
  return global_batch % data == 0
             ? divisors(global_batch / data)
             : divisors(global_batch, std::max<std::int64_t>(1, global_batch / data));
}

// With the schedules that fit this number of stages.
std::vector<LayoutChoice> with_schedules(LayoutChoice choice, std::int64_t layers) {
  std::vector<LayoutChoice> all{choice};
  if (choice.pipeline == 1) return all;
  for (const ScheduleKind schedule : {ScheduleKind::gpipe, ScheduleKind::zero_bubble}) {
    choice.schedule = schedule;
    all.push_back(choice);
  }
  choice.schedule = ScheduleKind::interleaved;
  for (const std::int64_t chunks : chunk_counts) {
    if (chunks * choice.pipeline > layers) break;
    choice.chunks = chunks;
    all.push_back(choice);
  }
  return all;
}

// For ZeRO in two levels: all data ranks, or those of a domain of fast links.
std::vector<std::int64_t> zero_groups(std::int64_t zero, std::int64_t data, std::int64_t tensor,
                                      int domain) {
  const std::int64_t here = domain / tensor;
  const bool several =
      zero > 0 && domain % tensor == 0 && here > 1 && here < data && data % here == 0;
  return several ? std::vector<std::int64_t>{0, here} : std::vector<std::int64_t>{0};
}

// Ranks among which experts are divided: those of the tensor group, of a domain of fast links, and
// as many as can be.
std::vector<std::int64_t> expert_ranks(std::int64_t experts, std::int64_t data, std::int64_t tensor,
                                       int domain) {
  std::vector<std::int64_t> all{0};
  std::int64_t here = 0, most = 0;
  for (const std::int64_t sharing : divisors(data)) {
    const std::int64_t ranks = sharing * tensor;
    if (sharing == 1 || ranks > experts || experts % ranks != 0) continue;
    if (ranks <= domain) here = ranks;
    most = ranks;
  }
  if (here > 0) all.push_back(here);
  if (most > here) all.push_back(most);
  return all;
}

// The ways in which ranks share layers, or samples that can be cut.
std::vector<LayoutChoice> inner_layouts(std::int64_t ranks, bool cuts) {
  if (!cuts) return {{.tensor = ranks}};
  std::vector<LayoutChoice> all;
  for (const std::int64_t width : divisors(ranks))
    for (const std::int64_t height : divisors(ranks / width))
      all.push_back({.spatial = {ranks / width / height, height, width}});
  return all;
}

// Ranks that may share each sequence: of a domain of fast links, or more if each has much of it.
std::vector<std::int64_t> context_ranks(const Config& given, const Extent& positions, int domain) {
  constexpr std::int64_t long_sequence = 8192;
  const std::int64_t tokens = positions.value, own = given.parallel.context;
  if (tokens < long_sequence) return {own};
  std::vector<std::int64_t> all;
  const auto most = std::max<std::int64_t>(domain, tokens / long_sequence);
  for (std::int64_t context = 1; context <= most && tokens % (2 * context) == 0; context *= 2)
    all.push_back(context);
  if (std::ranges::find(all, own) == all.end()) all.push_back(own);
  return all;
}

struct SearchSpace {
  const Config& given;
  ModelLimits limits;
  std::int64_t layers;
  int domain;
  bool fixed_batch;
};

// Those with `choice`'s data, context and pipeline, and `tensor` ranks inside.
void add_layouts(std::vector<LayoutChoice>& all, const SearchSpace& space, LayoutChoice choice,
                 std::int64_t tensor) {
  const std::int64_t data = choice.data * choice.context;
  const LayoutChoice axes = choice;
  const bool cuts = !space.limits.axes.empty();
  const auto batches = space.fixed_batch
                           ? std::vector{space.given.train.micro_batch}
                           : micro_batch_sizes(space.given.train.global_batch, choice.data);
  for (const std::int64_t zero : {0, 1, 2, 3}) {
    if (zero > 0 && data == 1) break;
    for (const bool sequence : {false, true}) {
      if (sequence && (tensor == 1 || cuts)) break;
      for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
        for (const std::int64_t batch : batches) {
          for (const LayoutChoice& inner : inner_layouts(tensor, cuts)) {
            choice = axes;
            choice.tensor = inner.tensor;
            choice.spatial = inner.spatial;
            choice.zero = zero;
            choice.micro_batch = batch;
            choice.sequence = sequence;
            choice.recompute = recompute;
            for (const std::int64_t expert :
                 expert_ranks(space.limits.experts.value, data, tensor, space.domain)) {
              choice.expert = expert;
              for (const std::int64_t group : zero_groups(zero, data, tensor, space.domain)) {
                choice.zero_group = group;
                std::ranges::move(with_schedules(choice, space.layers), std::back_inserter(all));
              }
            }
          }
        }
      }
    }
  }
}

// Simple ones first, which keeps that order among equal layouts.
std::vector<LayoutChoice> all_layouts(const Config& given, int ranks, int domain) {
  const Chain chain = make_chain(given);
  const SearchSpace space{given, limits_of(chain), static_cast<std::int64_t>(chain.size()), domain,
                          micro_batch_decides_results(given)};
  std::vector<LayoutChoice> all;
  for (const std::int64_t tensor : divisors(ranks)) {
    for (const std::int64_t pipeline : divisors(ranks / tensor)) {
      if (pipeline > space.layers) break;
      const std::int64_t sharing = ranks / tensor / pipeline;
      for (const std::int64_t context : context_ranks(given, space.limits.positions, domain)) {
        if (sharing % context != 0) continue;
        add_layouts(all, space,
                    {.data = sharing / context, .pipeline = pipeline, .context = context}, tensor);
      }
    }
  }
  if (all.empty()) all.push_back({.context = given.parallel.context});  // its refusal says why
  return all;
}

// The order in which they are estimated: those that differ in ZeRO alone have the same passes.
std::vector<std::size_t> like_ones_together(const std::vector<LayoutChoice>& all) {
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) {
    const LayoutChoice& c = all[i];
    return std::tuple(c.tensor, c.pipeline, c.context, c.spatial, c.sequence, c.recompute,
                      c.micro_batch, c.expert, c.schedule, c.chunks);
  });
  return order;
}

// The least memory of the fullest rank: weights, gradients, optimizer state and saved activations.
std::uint64_t min_bytes(const Config& config, const plan::StepInput& input, plan::StepMemo& memo) {
  const Schedule& schedule = schedule_of(input, memo);
  const double ranks = static_cast<double>(config.parallel.shard());
  const auto shared = [&](int from_stage) { return input.zero >= from_stage ? ranks : 1.0; };
  const double rounded = input.build.compute == DType::f32 || input.zero >= 3
                             ? 0
                             : static_cast<double>(size_of(input.build.compute));
  const double per_element =
      sizeof(float) * (1 / shared(3) + 1 / shared(2) + config.optimizer.moments() / shared(1));
  double max_bytes = 0;
  for (int stage = 0; stage < input.schedule.stages; ++stage) {
    double bytes = elements_of_stage(input, stage, memo) * (per_element + rounded);
    const auto& slots = schedule.slots[static_cast<std::size_t>(stage)];
    for (int chunk = 0; chunk < input.schedule.chunks; ++chunk) {
      const auto at = static_cast<std::size_t>(virtual_stage(input.schedule, stage, chunk));
      for (int i = input.stages.first_layer[at]; i < input.stages.first_layer[at + 1]; ++i) {
        bytes += static_cast<double>(input.layers[static_cast<std::size_t>(i)].kept_bytes) *
                 slots[static_cast<std::size_t>(chunk)] * input.build.context.local();
      }
    }
    max_bytes = std::max(max_bytes, bytes);
  }
  return static_cast<std::uint64_t>(max_bytes);
}

}  // namespace

bool micro_batch_decides_results(const Config& config) {
  if (config.reproducibility == Reproducibility::layout) return true;
  const Config whole = with_layout(config, {.micro_batch = config.train.micro_batch});
  const auto layers = summarize(make_chain(whole), device_type(whole),
                                build_options(whole, /*here=*/{}, /*training=*/true));
  return std::ranges::any_of(layers, [](const LayerSummary& layer) {
    // Counts of experts' tokens are those of the global batch.
    return std::ranges::any_of(layer.params, [](const ParamSpec& spec) {
      return spec.kind == ParamKind::statistic && spec.statistic_decay > 0 &&
             spec.statistic_decay < 1;
    });
  });
}

LayoutSearch::LayoutSearch(const Config& given, int ranks, const plan::Hardware& hardware)
    : LayoutSearch(given, planned_environment(ranks, hardware), hardware) {}

LayoutSearch::LayoutSearch(const Config& given, const Environment& environment,
                           const plan::Hardware& hardware)
    : given_(given), hardware_(hardware), environment_(environment) {
  const auto all = all_layouts(given, environment.ranks, hardware.links.domain);
  std::vector<std::optional<Candidate>> found(all.size());
  std::string refusal;
  std::size_t first_refused = all.size();
  Progress progress("layouts", all.size(), "layouts", /*shown=*/true);
  for (const std::size_t i : like_ones_together(all)) {
    std::string why;
    found[i] = considered(all[i], why);
    refused_ += why.empty() ? 0 : 1;
    if (!why.empty() && i < first_refused) {
      first_refused = i;
      refusal = std::move(why);
    }
    progress.add(1);
  }
  for (std::optional<Candidate>& candidate : found) {
    if (candidate) candidates_.push_back(std::move(*candidate));
  }
  tried_ = all.size();
  if (refused_ < tried_) return;
  fail(ExitCode::config, "none of {} layouts of {} ranks is possible; of the first: {}", tried_,
       environment.ranks, refusal);
}

std::optional<LayoutSearch::Candidate> LayoutSearch::considered(const LayoutChoice& choice,
                                                                std::string& refusal) {
  try {
    const Config config =
        config::resolve_config(key_table(), with_layout(given_, choice), environment_, nullptr,
                               Purpose::train, limits_ ? &*limits_ : nullptr);
    if (!limits_) limits_ = key_table().family_of(config).limits(config);
    const std::uint64_t bytes = min_bytes(config, planner_.declared(config), memo_) +
                                static_cast<std::uint64_t>(hardware_.device.framework_bytes);
    if (static_cast<double>(bytes) > hardware_.device.memory_bytes) {
      ++too_large_;
      return std::nullopt;
    }
    return Candidate{.choice = choice,
                     .step = plan::estimate_step(planner_.input(config), hardware_, &memo_),
                     .min_bytes = bytes};
  } catch (const Error& error) {
    if (error.code() != ExitCode::config) throw;
    refusal = error.what();
    return std::nullopt;
  }
}

std::optional<LayoutPlan> LayoutSearch::fitting(const Candidate& candidate) {
  LayoutPlan plan{.config = resolve_config(with_layout(given_, candidate.choice), environment_),
                  .step = candidate.step};
  plan.stages = plan_memory_of_stages(plan.config);
  if (fits(plan, hardware_)) return plan;
  ++too_large_;
  return std::nullopt;
}

std::vector<LayoutPlan> LayoutSearch::fastest(std::size_t count) {
  std::ranges::stable_sort(candidates_, {}, [](const Candidate& candidate) {
    return std::pair(candidate.step.total, candidate.min_bytes);
  });
  std::vector<LayoutPlan> best;
  for (const Candidate& candidate : candidates_) {
    if (best.size() == count) break;
    if (auto plan = fitting(candidate)) best.push_back(std::move(*plan));
  }
  return best;
}

std::optional<LayoutPlan> LayoutSearch::nearest(const LayoutChoice& from) {
  std::ranges::stable_sort(candidates_, {}, [&](const Candidate& candidate) {
    return std::pair(distance(candidate.choice, from), candidate.step.total);
  });
  for (const Candidate& candidate : candidates_) {
    if (auto plan = fitting(candidate)) return plan;
  }
  return std::nullopt;
}

}  // namespace trireme
