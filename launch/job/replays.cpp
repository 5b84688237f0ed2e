// SPDX-License-Identifier: Apache-2.0
#include "launch/job/replays.h"

#include <algorithm>
#include <cmath>

#include "launch/engine/memory_plan.h"
#include "launch/engine/options.h"
#include "runtime/base/log.h"
#include "runtime/train/meters/reduce_replay.h"
#include "runtime/train/meters/stage_replay.h"

namespace trireme {
namespace {

constexpr double worth_measuring = 0.02;
// How far a replay of the run's own settings may be from what was measured.
constexpr double trusted = 0.25;
// Micro-batches of a run that is long enough for its stages to be measured: some forty steps'
// time.
constexpr std::int64_t enough_micro_batches = 60;
// And of a pipeline of longer steps they are not, for some ranks wait while others are.
constexpr double longest_step_ms = 5000;

class Replays {
 public:
  Replays(const Session& session, const ReplayInput& input)
      : session_(session), config_(session.config), input_(input) {}

  // Means over the steps, in milliseconds.
  [[nodiscard]] double of_step(double StepTotals::*part) const {
    const auto steps = std::max<std::int64_t>(input_.summary.totals.steps, 1);
    return input_.summary.totals.*part / static_cast<double>(steps);
  }
  // What a step saves, as a share of the run.
  [[nodiscard]] double share(double step_ms) const {
    const double steps = static_cast<double>(input_.summary.totals.steps);
    return input_.summary.wall_seconds > 0 ? 1e-3 * steps * step_ms / input_.summary.wall_seconds
                                           : 0;
  }
  void add(std::string setting, double saved_ms, std::string unless = "") {
    if (!(saved_ms > 0)) return;
    trials_.push_back(
        {.setting = std::move(setting), .gain = share(saved_ms), .unless = std::move(unless)});
  }

  void add_cut();
  void add_schedules(const StageCosts& stages);
  void add_fewer_stages(const StageCosts& stages, const ReduceCost& world);
  void add_buckets(const ReduceCost& cost);
  void add_larger_micro_batch(const ReduceCost& cost, std::int64_t elements);
  void add_workers();
  void add_cache();
  [[nodiscard]] std::vector<Trial> take() { return std::move(trials_); }

 private:
  // Saved of the pipeline's measured time where a replay takes `other` instead of the present
  // schedule's, both on `cores`.
  [[nodiscard]] double saved_of_pipeline(double other, double cores) const {
    const BubbleReport& report = *input_.pipeline;
    const double now = length_of_step(session_.pipeline, report.costs, cores);
    return other > 0 && now > 0 ? (1 - other / now) * report.span_ms : 0;
  }
  [[nodiscard]] bool replay_is_true() const {
    const BubbleReport& report = *input_.pipeline;
    return std::abs(report.replay_ms - report.span_ms) <= trusted * report.span_ms;
  }

  const Session& session_;
  const Config& config_;
  const ReplayInput& input_;
  std::vector<Trial> trials_;
};

void Replays::add_schedules(const StageCosts& stages) {
  const ScheduleShape& shape = session_.pipeline;
  const double cores = stages.cores;
  if (stages.split)
    add("parallel.schedule=zero-bubble",
        saved_of_pipeline(with_zero_bubble(shape, *stages.split, cores), cores),
        "if memory allows");
  if (stages.half)
    add(fmt::format("train.micro_batch={}", config_.train.micro_batch / 2),
        saved_of_pipeline(with_half_micro_batches(shape, *stages.half, cores), cores));
}

// Only a cut by hand is worse than the balanced one by FLOPs.
void Replays::add_cut() {
  if (config_.parallel.stage_layers.empty() || !replay_is_true()) return;
  const ScheduleShape& shape = session_.pipeline;
  const auto costs = costs_of_cut(input_.pipeline->costs, session_.layers, session_.stages,
                                  plan_stages(session_.layers, shape));
  const double cores = shape.stages;
  if (costs)
    add("parallel.stage_layers=[]", saved_of_pipeline(length_of_step(shape, *costs, cores), cores));
}

// The gradients of a stage of twice the layers are reduced over a group that did not exist: all of
// the job stands for it, and nothing of the reduction is taken to be hidden. Without ZeRO every
// rank updates what two ranks did.
void Replays::add_fewer_stages(const StageCosts& stages, const ReduceCost& world) {
  const ParallelConfig& parallel = config_.parallel;
  if (config_.train.global_batch % (config_.train.micro_batch * parallel.data * 2) != 0) return;
  const double then = with_half_the_stages(session_.pipeline, input_.pipeline->costs, stages.cores);
  if (!replay_is_true() || share_cores(input_.facts) || then == 0) return;
  std::int64_t all = 0;
  for (const LayerSummary& layer : session_.layers) {
    for (const ParamSpec& spec : layer.params)
      all += spec.is_copy() ? 0 : spec.shape.count();
  }
  const double elements = 2.0 * static_cast<double>(all) / static_cast<double>(parallel.pipeline);
  const double calls = std::ceil(elements / static_cast<double>(bucket_elements(config_)));
  const double reduction = calls * world.call + elements * world.element;
  const double update = parallel.zero == 0 ? of_step(&StepTotals::optimizer_ms) : 0;
  const double saved = saved_of_pipeline(then, stages.cores) - update -
                       std::max(reduction - of_step(&StepTotals::reduce_comm_ms), 0.0);
  add(fmt::format("parallel.pipeline={} parallel.data={}", parallel.pipeline / 2,
                  2 * parallel.data),
      saved, "if memory allows");
}

std::vector<std::int64_t> weight_buckets(const ParamLayout& layout) {
  std::vector<std::int64_t> counts;
  for (const Bucket& bucket : layout.buckets())
    if (bucket.kind == ParamKind::weight) counts.push_back(bucket.count);
  return counts;
}

// Of what is measured to be exposed, the part that larger buckets take away in the replay.
void Replays::add_buckets(const ReduceCost& cost) {
  const std::vector<std::int64_t> buckets = weight_buckets(session_.model->params().layout());
  const double micro_batches = static_cast<double>(session_.pipeline.micro_batches);
  const double backward = of_step(&StepTotals::backward_ms) / micro_batches;
  const double now = exposed_reduction(buckets, backward, cost);
  const double measured = of_step(&StepTotals::reduce_comm_ms);
  if (buckets.size() < 2 || !(now > 0)) return;
  double best = 0, megabytes = 0;
  for (const std::int64_t times : {4, 16, 64, 256}) {
    const auto joined = joined_buckets(buckets, times * bucket_elements(config_));
    const double then = exposed_reduction(joined, backward, cost);
    const double saved = std::min(measured, now) * (1 - then / now);
    if (saved < 1.05 * best) continue;
    best = saved;
    megabytes = static_cast<double>(times) * config_.parallel.bucket_megabytes;
  }
  add(fmt::format("parallel.bucket_megabytes={:.6g}", megabytes), best);
}

// Sums of a tensor group are as many for twice as large micro-batches, of which there are half as
// many: what each call takes beside its elements is saved once in two.
void Replays::add_larger_micro_batch(const ReduceCost& cost, std::int64_t elements) {
  const double once = cost.of(elements);
  if (!(once > 0)) return;
  const double saved = of_step(&StepTotals::tensor_comm_ms) * cost.call / (2 * once);
  add(fmt::format("train.micro_batch={}", 2 * config_.train.micro_batch), saved,
      "if memory allows");
}

// What a layer's output holds, as a sum of a tensor group has it: of most layers, which are blocks.
std::int64_t summed_elements(const Session& session) {
  std::vector<std::int64_t> counts;
  for (const LayerSummary& layer : session.layers)
    counts.push_back(layer.output.count());
  std::ranges::sort(counts);
  return counts.empty() ? 0 : counts[counts.size() / 2];
}

// Readers that are busy and do not compute wait for storage, and more of them wait at the same
// time.
void Replays::add_workers() {
  constexpr double busy = 0.8, computing = 0.3, comfortable = 0.9;
  const DataConfig& data = config_.data;
  const ReadWork& reading = input_.reading;
  const StepTotals& totals = input_.summary.totals;
  const double steps = static_cast<double>(std::max<std::int64_t>(totals.steps, 1));
  const double wait = totals.data_wait_ms / steps, step = totals.step_ms / steps;
  const auto workers = static_cast<double>(data.workers);
  if (totals.step_ms <= 0 || input_.summary.slow.data.rank >= 0 ||
      1e3 * reading.seconds < busy * workers * totals.step_ms ||
      reading.computing > computing * reading.seconds)
    return;
  // No more pieces of batches are under way than this.
  const std::int64_t most = data.prefetch * config_.train.micro_batch;
  const double read = std::min(1e3 * reading.seconds / steps, workers * step);
  std::int64_t more = std::min(2 * data.workers, most);
  for (; 2 * more <= std::min(most, 8 * data.workers) &&
         read / static_cast<double>(more) > comfortable * (step - wait);
       more *= 2) {
  }
  if (more <= data.workers) return;
  const double then = std::max(step - wait, read / static_cast<double>(more));
  add(fmt::format("data.workers={}", more), std::min(wait, step - then),
      "if the storage serves so many readers");
}

// A cache that keeps every decoded chunk, so that none is decoded again.
void Replays::add_cache() {
  const ReadWork& reading = input_.reading;
  // Of several sources each has its own, and which it was is not known.
  if (reading.decoded_again < notable_decoded_again || !config_.data.sources.empty()) return;
  const double wait = of_step(&StepTotals::data_wait_ms), step = of_step(&StepTotals::step_ms);
  const double steps = static_cast<double>(std::max<std::int64_t>(input_.summary.totals.steps, 1));
  const double read =
      std::min(1e3 * reading.seconds / steps / static_cast<double>(config_.data.workers), step);
  const double then = std::max(step - wait, read * (1 - reading.decoded_again));
  add(fmt::format("data.cache_megabytes={:.0f}", std::ceil(1e-6 * reading.chunk_bytes)),
      std::min(wait, step - then), "if every rank has that memory");
}

StageQuestions questions_of(const Session& session) {
  const Config& config = session.config;
  const bool splits = std::ranges::all_of(session.layers, &LayerSummary::splits_backward);
  return {.split = splits && config.train.recompute == Recompute::none &&
                   config.parallel.schedule != ScheduleKind::zero_bubble &&
                   session.pipeline.chunks == 1,
          .half = config.train.micro_batch % 2 == 0};
}

// Stages of a pipeline, which nobody else uses any more.
void measure_pipeline(Session& session, const ReplayInput& input, Replays& replays) {
  const ParallelConfig& parallel = session.config.parallel;
  const auto stages =
      measure_stages(session, input.pipeline->costs, *input.last, questions_of(session));
  if (!stages) return;
  const bool leader = session.world->rank() == 0;
  if (leader) replays.add_schedules(*stages);
  const ParamStore& params = session.model->params();
  if (parallel.tensor > 1 || parallel.pipeline % 2 != 0 || params.options().gradient_levels != 1)
    return;
  // Stages hold different numbers of gradients.
  const Tensor gradients = params.gradients().held(0);
  const std::int64_t common = -largest_of_any_rank<1>(*session.world, {-gradients.count()})[0];
  const ReduceCost cost = measure_reduction(*session.world, *session.streams.comm,
                                            gradients.range(0, common), common / 4,
                                            /*scatter=*/false);
  if (leader) replays.add_fewer_stages(*stages, cost);
}

void measure_groups(Session& session, bool reduces, bool sums, Replays& replays) {
  const ParallelConfig& parallel = session.config.parallel;
  const TrainConfig& train = session.config.train;
  const bool leader = session.world->rank() == 0;
  const Tensor gradients = session.model->params().gradients().held(0);
  Stream& comm = *session.streams.comm;
  if (reduces && parallel.data > 1 && parallel.reducer == ReducerMode::overlapped) {
    const ReduceCost cost = measure_reduction(session.mesh.data(), comm, gradients,
                                              bucket_elements(session.config), parallel.zero == 1);
    if (leader) replays.add_buckets(cost);
  }
  if (sums && parallel.tensor > 1 &&
      train.global_batch % (2 * train.micro_batch * parallel.data) == 0) {
    const std::int64_t elements = summed_elements(session);
    const Tensor sample = gradients.range(0, std::min(gradients.count(), 4 * elements));
    const ReduceCost cost =
        measure_reduction(session.mesh.tensor(), comm, sample, elements, /*scatter=*/false);
    if (leader) replays.add_larger_micro_batch(cost, elements);
  }
}

// Rank 0 knows what is worth it, and all measure what it wants; the gradients of a run that has
// ended are the memory for it.
void measure_and_add(Session& session, const ReplayInput& input, Replays& replays) {
  const ParallelConfig& parallel = session.config.parallel;
  const bool leader = session.world->rank() == 0;
  const auto worth = [&](double StepTotals::*part) {
    return leader && replays.share(replays.of_step(part)) >= worth_measuring ? 1 : 0;
  };
  const bool measurable =
      input.pipeline && input.pipeline->replay_ms < longest_step_ms &&
      input.summary.totals.steps * session.pipeline.micro_batches >= enough_micro_batches;
  const auto [reduces, sums, bubbles] = largest_of_any_rank<3>(
      *session.world, {worth(&StepTotals::reduce_comm_ms), worth(&StepTotals::tensor_comm_ms),
                       measurable ? worth(&StepTotals::bubble_ms) : 0});
  // Where ranks have different numbers of micro-batches, so have they of what measures them.
  if (parallel.zero >= 2 || input.facts.uneven_batch) return;
  if (bubbles > 0 && input.pipeline && input.last) measure_pipeline(session, input, replays);
  if (parallel.pipeline == 1 && session.model->params().options().gradient_levels == 1)
    measure_groups(session, reduces > 0, sums > 0, replays);
}

}  // namespace

std::optional<BubbleReport> pipeline_report(Session& session, const PipelineRunner& runner,
                                            const BubbleMeter& meter) {
  const ScheduleShape& shape = runner.shape();
  if (shape.stages == 1) return std::nullopt;
  BubbleReport report = meter.report(session.mesh.pipeline());
  if (session.world->rank() == 0)
    log::get("train").info(
        "pipeline bubble: measured {:.1f} %, predicted {:.1f} % from the stages' times, {:.1f} % "
        "with equal stages ({} x {} micro-batches, {})",
        100 * report.measured, 100 * report.predicted, 100 * report.ideal, shape.stages,
        shape.micro_batches, name_of(shape.kind));
  return report;
}

std::vector<Trial> replays_of(Session& session, const ReplayInput& input) {
  Replays replays(session, input);
  const bool leader = session.world->rank() == 0;
  if (leader && input.pipeline) replays.add_cut();
  if (leader) replays.add_workers();
  if (leader) replays.add_cache();
  measure_and_add(session, input, replays);
  return replays.take();
}

}  // namespace trireme
