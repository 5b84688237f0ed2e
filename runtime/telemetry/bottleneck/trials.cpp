// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/bottleneck/trials.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/telemetry/time_left.h"

namespace trireme {
namespace {

constexpr double worth_trying = 0.02;
constexpr std::size_t most_told = 2;
constexpr std::int64_t rarer = 4;  // times

double share(double seconds, const RunSummary& summary) {
  return summary.wall_seconds > 0 ? seconds / summary.wall_seconds : 0.0;
}

// Work that took `seconds` and is done every `every` steps, done a quarter as often.
void add_rarer(std::vector<Trial>& trials, const RunSummary& summary, const char* key,
               std::int64_t every, double seconds, bool behind_last) {
  if (every <= 0) return;
  const std::int64_t steps = summary.totals.steps;
  const auto now = static_cast<double>(times_due(0, steps, every, behind_last));
  if (now == 0) return;
  const auto then = static_cast<double>(times_due(0, steps, rarer * every, behind_last));
  const double saved = seconds * (1 - then / now);
  trials.push_back(
      {.setting = fmt::format("{}={}", key, rarer * every), .gain = share(saved, summary)});
}

// Twice the micro-batches per step: twice the passes, one reduction and update.
void add_larger_batch(std::vector<Trial>& trials, const RunSummary& summary,
                      const RunFacts& facts) {
  if (facts.global_batch <= 0 || facts.pipeline > 1) return;
  const StepTotals& totals = summary.totals;
  const double once = 1e-3 * (totals[TimePart::reduce_comm] + totals[TimePart::optimizer]);
  trials.push_back({.setting = fmt::format("train.global_batch={}", 2 * facts.global_batch),
                    .gain = share(once / 2, summary),
                    .of_sample = true});
}

// Forward passes are then done once. The repeated part of selective recomputation is not measured.
void add_no_recompute(std::vector<Trial>& trials, const RunSummary& summary,
                      const RunFacts& facts) {
  if (!facts.full_recompute) return;
  trials.push_back({.setting = "train.recompute=none",
                    .gain = share(1e-3 * summary.totals[TimePart::forward], summary),
                    .unless = "if memory allows"});
}

// Of all data ranks at once, those that share sequences counted once.
std::int64_t samples_at_once(const RunFacts& facts) {
  return facts.micro_batch * (facts.data / std::max(facts.context, 1));
}

// Per data rank and step; 0: unknown.
double micro_batches_of(const RunFacts& facts) {
  if (facts.global_batch <= 0 || facts.micro_batch <= 0 || facts.data <= 0) return 0;
  return static_cast<double>(facts.global_batch) / static_cast<double>(samples_at_once(facts));
}

// The cost of ZeRO stages 2 and 3 in every pass, and of stage 1 once per step. Stage 3 gathers
// parameters for both passes of every micro-batch, and both reduce gradients after each; it shows
// as waits within the passes (if there is no tensor group with such waits).
double milliseconds_of_passes(const RunSummary& summary, const RunFacts& facts) {
  const double gathers = facts.zero == 3 ? summary.totals[TimePart::gather_comm] : 0;
  return gathers + (facts.tensor * facts.context == 1 ? summary.totals[TimePart::tensor_comm] : 0);
}

void add_less_sharding(std::vector<Trial>& trials, const RunSummary& summary,
                       const RunFacts& facts) {
  const double micro_batches = micro_batches_of(facts);
  if (facts.zero < 2 || facts.data < 2 || facts.pipeline > 1 || micro_batches < 1) return;
  const double passes = milliseconds_of_passes(summary, facts);
  trials.push_back({.setting = "parallel.zero=1",
                    .gain = share(1e-3 * passes * (1 - 1 / (2 * micro_batches)), summary),
                    .unless = "if memory allows"});
}

// Gathers and reductions per pass serve twice as many samples.
void add_larger_micro_batch(std::vector<Trial>& trials, const RunSummary& summary,
                            const RunFacts& facts) {
  const double micro_batches = micro_batches_of(facts);
  const bool even = facts.micro_batch > 0 && facts.global_batch % (2 * samples_at_once(facts)) == 0;
  if (facts.zero < 2 || facts.data < 2 || facts.pipeline > 1 || micro_batches < 2 || !even) return;
  trials.push_back({.setting = fmt::format("train.micro_batch={}", 2 * facts.micro_batch),
                    .gain = share(1e-3 * milliseconds_of_passes(summary, facts) / 2, summary),
                    .unless = "if memory allows"});
}

}  // namespace

std::vector<Trial> trials_of(const RunSummary& summary, const RunFacts& facts) {
  std::vector<Trial> trials = summary.trials;
  add_rarer(trials, summary, "train.eval_every", facts.eval_every, summary.evaluation_seconds,
            true);
  add_rarer(trials, summary, "checkpoint.every_steps", facts.checkpoint_every,
            1e-3 * parts_of(summary.totals.times)[TimePart::checkpoint] +
                summary.checkpoint_after_seconds,
            false);
  add_no_recompute(trials, summary, facts);
  add_less_sharding(trials, summary, facts);
  add_larger_micro_batch(trials, summary, facts);
  add_larger_batch(trials, summary, facts);
  std::erase_if(trials, [](const Trial& trial) { return trial.gain < worth_trying; });
  // Changes to the training itself come last.
  std::ranges::stable_sort(trials, [](const Trial& a, const Trial& b) {
    return a.of_sample != b.of_sample ? b.of_sample : a.gain > b.gain;
  });
  return trials;
}

std::string try_line(const RunSummary& summary, const RunFacts& facts) {
  std::string text;
  const std::vector<Trial> trials = trials_of(summary, facts);
  for (std::size_t i = 0; i < std::min(trials.size(), most_told); ++i) {
    const Trial& trial = trials[i];
    text += fmt::format(
        "{} {} (predicted -{:.1f} % {}{}{}{})", i == 0 ? "suggestion:" : ",", trial.setting,
        100 * trial.gain, trial.of_sample ? "time a sample; " : "time",
        trial.of_sample ? changes_training : "", trial.unless.empty() ? "" : ", ", trial.unless);
  }
  constexpr double doubtful = 5;  // percent
  const double waited = percent(1e-3 * summary.totals[TimePart::core_wait], summary.wall_seconds);
  if (!text.empty() && waited > doubtful)
    text += fmt::format("; not certain, because CPU contention took {:.0f} % of the time", waited);
  return text;
}

}  // namespace trireme
