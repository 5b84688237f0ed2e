// SPDX-License-Identifier: Apache-2.0
#include "launch/job/run_advice.h"

#include <algorithm>
#include <cmath>

#include "launch/bench/comm/links.h"
#include "launch/engine/memory_plan.h"
#include "launch/plan/neighbours.h"

namespace trireme {
namespace {

constexpr double worth_measuring = 0.02;
// Fewer are too noisy, and leave no run to improve.
constexpr std::int64_t enough_micro_batches = 60;

double per_step(double milliseconds, const RunSummary& summary) {
  return milliseconds / static_cast<double>(std::max<std::int64_t>(summary.totals.steps, 1));
}

// The gain of `milliseconds` less per step.
void add(std::vector<Trial>& trials, std::string setting, double milliseconds,
         const RunSummary& summary, std::string unless) {
  const double seconds = 1e-3 * milliseconds * static_cast<double>(summary.totals.steps);
  if (seconds > 0 && summary.wall_seconds > 0)
    trials.push_back({.setting = std::move(setting),
                      .gain = seconds / summary.wall_seconds,
                      .unless = std::move(unless)});
}

// Busy readers that do not compute wait for storage; more readers overlap these waits.
void add_workers(std::vector<Trial>& trials, const Config& config, const RunSummary& summary,
                 const ReadWork& reading) {
  constexpr double busy = 0.8, computing = 0.3, comfortable = 0.9;
  const DataConfig& data = config.data;
  const StepTotals& totals = summary.totals;
  const double wait = per_step(totals[TimePart::data_wait], summary),
               step = per_step(totals[TimePart::step], summary);
  const auto workers = static_cast<double>(data.workers);
  if (totals[TimePart::step] <= 0 || summary.slow.data.rank >= 0 ||
      1e3 * reading.seconds < busy * workers * totals[TimePart::step] ||
      reading.computing > computing * reading.seconds)
    return;
  // Prefetching allows no more samples in flight.
  const std::int64_t most = data.prefetch * config.train.micro_batch;
  const double read = std::min(per_step(1e3 * reading.seconds, summary), workers * step);
  std::int64_t more = std::min(2 * data.workers, most);
  for (; 2 * more <= std::min(most, 8 * data.workers) &&
         read / static_cast<double>(more) > comfortable * (step - wait);
       more *= 2) {
  }
  if (more <= data.workers) return;
  const double then = std::max(step - wait, read / static_cast<double>(more));
  add(trials, fmt::format("data.workers={}", more), std::min(wait, step - then), summary,
      "if the storage serves so many readers");
}

// A cache that holds every decoded chunk.
void add_cache(std::vector<Trial>& trials, const Config& config, const RunSummary& summary,
               const ReadWork& reading) {
  // Each of several sources has its own cache, and the figure does not tell them apart.
  if (reading.decoded_again < notable_decoded_again || !config.data.sources.empty()) return;
  const double wait = per_step(summary.totals[TimePart::data_wait], summary),
               step = per_step(summary.totals[TimePart::step], summary);
  const double read = std::min(
      per_step(1e3 * reading.seconds, summary) / static_cast<double>(config.data.workers), step);
  const double then = std::max(step - wait, read * (1 - reading.decoded_again));
  add(trials, fmt::format("data.cache_megabytes={:.0f}", std::ceil(1e-6 * reading.chunk_bytes)),
      std::min(wait, step - then), summary, "if every rank has that memory");
}

plan::Link link_of(Session& session, Communicator& group) {
  comm_bench::MeasureOptions options = comm_bench::link_options(*session.device, /*repeats=*/5);
  options.batch_seconds = 5e-3;
  return comm_bench::all_reduce_link(group, *session.world, *session.device, options);
}

// Collective. Empty if a rank lacks the memory or a link is too noisy to measure.
std::optional<MachineRates> measure(Session& session) {
  constexpr std::size_t needed = std::size_t{32} << 20;
  bool fits = true;
  try {
    const Buffer room(*session.device, needed, MemoryKind::device);
  } catch (const OutOfMemory&) {
    fits = false;
  }
  if (largest_of_any_rank<1>(*session.world, {fits ? 0 : 1})[0] != 0) return std::nullopt;
  MachineRates machine;
  const MeshShape& mesh = session.mesh.shape();
  machine.others = link_of(session, mesh.data > 1 ? session.mesh.data() : *session.world);
  machine.tensor = mesh.tensor > 1 ? link_of(session, session.mesh.tensor()) : machine.others;
  if (session.world->rank() == 0) {
    machine.matmuls =
        model_bench::time_matmuls(*session.device, compute_dtype(session.config.precision));
    machine.launch = model_bench::time_launch(*session.device);
  }
  session.world->barrier();
  if (machine.others.bandwidth == 0 || machine.tensor.bandwidth == 0) return std::nullopt;
  return machine;
}

// Whether another layout could gain. Rank 0 decides.
bool worth_it(const Session& session, const RunSummary& summary) {
  const StepTotals& totals = summary.totals;
  if (session.world->size() == 1 ||
      totals.steps * session.pipeline.micro_batches < enough_micro_batches)
    return false;
  const double most = std::max(
      {totals[TimePart::reduce_comm], totals[TimePart::tensor_comm], totals[TimePart::bubble]});
  return 1e-3 * most >= worth_measuring * summary.wall_seconds;
}

}  // namespace

std::vector<Trial> advice_of_run(Session& session, const RunFacts& facts, const RunSummary& summary,
                                 const ReadWork& reading) {
  std::vector<Trial> trials;
  const bool leader = session.world->rank() == 0;
  if (leader) add_workers(trials, session.config, summary, reading);
  if (leader) add_cache(trials, session.config, summary, reading);
  const bool wanted = leader && worth_it(session, summary);
  if (largest_of_any_rank<1>(*session.world, {wanted ? 1 : 0})[0] == 0) return trials;
  const auto machine = measure(session);
  if (!leader || !machine) return trials;
  std::ranges::move(neighbour_trials(session.config, facts, summary, *machine),
                    std::back_inserter(trials));
  return trials;
}

}  // namespace trireme
