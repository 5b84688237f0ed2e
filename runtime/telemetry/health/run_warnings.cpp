// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/health/run_warnings.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "runtime/telemetry/advice.h"

namespace trireme {
namespace {

// Prefetching should hide all but 5 %; twice that is reported.
constexpr double notable_wait = 0.1;
constexpr double judged_ms = 10e3;  // minimum total time of steps
constexpr std::int64_t judged_steps = 20;

constexpr std::int64_t settled_steps = 100;  // before norms are checked
constexpr double norm_decay = 0.98, norm_leap = 10, norm_deviations = 8;
constexpr std::int64_t zeros_in_a_row = 3;

constexpr std::int64_t block_steps = 100;
constexpr int rises_in_a_row = 3;
constexpr double notable_rise = 0.1, rise_errors = 6;

constexpr double least_stall_ms = 1000, notable_stall = 0.05, least_write_seconds = 5;
constexpr std::size_t compared_saves = 3, kept_rates = 20;

constexpr int loads_in_a_row = 3;
constexpr double notable_rounds = 0.05;

constexpr std::size_t most_samples = 256;

// Beyond half way from an even load to one where all tokens visit the same experts, or most experts
// visited by none of at least as many tokens.
bool has_collapsed(const ExpertLoad& load) {
  const auto experts = static_cast<double>(load.experts), slots = static_cast<double>(load.slots);
  if (load.tokens * slots < experts) return false;
  const double most = experts / slots;
  return 2 * load.dead > load.experts || (most > 1 && 2 * load.max_over_mean > 1 + most);
}

double minutes_between(std::chrono::system_clock::time_point from,
                       std::chrono::system_clock::time_point to) {
  return std::chrono::duration<double, std::ratio<60>>(to - from).count();
}

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// ", 310 W"; "" if unknown.
std::string reading(double value, std::string_view unit) {
  return std::isfinite(value) ? fmt::format(", {:.0f} {}", value, unit) : std::string();
}

}  // namespace

RunWarnings::RunWarnings(WarningSources sources) : sources_(std::move(sources)) {}

void RunWarnings::step(const StepMetrics& metrics) {
  if (sources_.minutes <= 0) return;
  if (!last_save_) last_save_ = metrics.time;
  watch_data(metrics);
  watch_norm(metrics);
  watch_loss(metrics);
  watch_experts(metrics);
  watch_rounds(metrics);
  watch_gpus(metrics);
}

void RunWarnings::watch_data(const StepMetrics& metrics) {
  if (data_steps_++ == 0) first_data_step_ = metrics.step;
  data_ms_ += metrics.times[TimePart::step];
  data_wait_ms_ += metrics.times[TimePart::data_wait];
  if (metrics.slow_read) {
    Reader& reader = readers_[metrics.slow_read->rank];
    reader.wait_ms += metrics.slow_read->wait_ms;
    Reads& reads = reader.files[metrics.slow_read->file];
    reads.seconds += metrics.slow_read->seconds;
    reads.bytes += metrics.slow_read->bytes;
  }
  if (data_steps_ < judged_steps || data_ms_ < judged_ms) return;
  const double share = data_wait_ms_ / data_ms_;
  const bool small_cache =
      sources_.decoded_again && sources_.decoded_again() >= notable_decoded_again;
  if (share > notable_wait && may_warn(slow_data, metrics.time)) {
    warn(
        slow_data, metrics.step, metrics.time,
        fmt::format("steps {} to {} waited for data in {:.0f} % of their time, {:.1f} ms a step{}; "
                    "{}",
                    first_data_step_, metrics.step, 100 * share,
                    data_wait_ms_ / static_cast<double>(data_steps_), slowest_reads(),
                    small_cache ? advice_for(Bottleneck::small_cache, {})
                                : "raise data.workers or data.prefetch, or copy the data to the "
                                  "host's disk (data.stage)"));
  }
  data_steps_ = 0;
  data_ms_ = data_wait_ms_ = 0;
  readers_.clear();
}

// " (rank 3 on n1 waited longest, ...)"
std::string RunWarnings::slowest_reads() const {
  if (readers_.empty()) return "";
  const auto& [rank, reader] = *std::ranges::max_element(
      readers_, {}, [](const auto& entry) { return entry.second.wait_ms; });
  const auto place = static_cast<std::size_t>(rank);
  std::string text = fmt::format(
      " (rank {}{} waited longest, {:.1f} ms a step", rank,
      place < sources_.hosts.size() ? fmt::format(" on {}", sources_.hosts[place]) : std::string(),
      reader.wait_ms / static_cast<double>(data_steps_));
  const auto& [file, reads] = *std::ranges::max_element(
      reader.files, {}, [](const auto& entry) { return entry.second.seconds; });
  const std::string path =
      sources_.path_of && reads.seconds > 0 ? sources_.path_of(file) : std::string();
  if (!path.empty())
    text += fmt::format(", and read {} longest: {:.1f} MB/s a thread", path,
                        1e-6 * reads.bytes / reads.seconds);
  return text + ")";
}

void RunWarnings::watch_norm(const StepMetrics& metrics) {
  if (!std::isfinite(metrics.grad_norm) || !std::isfinite(metrics.loss)) return;
  zeros_ = metrics.grad_norm == 0 ? zeros_ + 1 : 0;
  if (zeros_ == zeros_in_a_row && may_warn(zero_gradient, metrics.time)) {
    warn(zero_gradient, metrics.step, metrics.time,
         fmt::format("the gradient norm has been exactly 0 since step {}: no weight is trained; "
                     "the loss is {}",
                     metrics.step - zeros_in_a_row + 1, metrics.loss));
  }
  if (metrics.grad_norm <= 0) return;
  const double value = std::log(metrics.grad_norm);
  const double above = value - norm_mean_, deviation = std::sqrt(norm_variance_);
  const bool leapt =
      norms_ >= settled_steps && above > std::log(norm_leap) && above > norm_deviations * deviation;
  if (leapt && may_warn(gradient_norm, metrics.time)) {
    warn(gradient_norm, metrics.step, metrics.time,
         fmt::format("the gradient norm jumped to {:.4g}, {:.0f} times its running mean of {:.4g}; "
                     "the loss is {:.4f}{}",
                     metrics.grad_norm, std::exp(above), std::exp(norm_mean_), metrics.loss,
                     samples_text(metrics.step)));
  }
  // Slow enough that one spike does not hide the next, fast enough to follow a run.
  const double weight =
      norms_ < settled_steps ? 1.0 / static_cast<double>(norms_ + 1) : 1 - norm_decay;
  ++norms_;
  norm_mean_ += weight * above;
  norm_variance_ = (1 - weight) * (norm_variance_ + weight * above * above);
}

void RunWarnings::watch_loss(const StepMetrics& metrics) {
  if (!std::isfinite(metrics.loss)) return;
  ++block_.steps;
  block_.sum += metrics.loss;
  block_.squares += metrics.loss * metrics.loss;
  if (block_.steps == block_steps) end_block(metrics);
}

void RunWarnings::end_block(const StepMetrics& metrics) {
  const Block block = std::exchange(block_, {});
  const auto steps = static_cast<double>(block.steps);
  const double mean = block.sum / steps;
  const double variance = std::max(block.squares / steps - mean * mean, 0.0);
  const double error = std::sqrt(variance / steps);
  rises_ = last_mean_ && mean > *last_mean_ ? rises_ + 1 : 0;
  last_mean_ = mean;
  if (!lowest_mean_ || mean < *lowest_mean_) {
    lowest_mean_ = mean;
    lowest_error_ = error;
    return;
  }
  const double rise = mean - *lowest_mean_;
  const bool notable = rise > notable_rise * std::abs(*lowest_mean_) &&
                       rise > rise_errors * std::hypot(error, lowest_error_);
  if (rises_ < rises_in_a_row || !notable || !may_warn(loss_rising, metrics.time)) return;
  warn(loss_rising, metrics.step, metrics.time,
       fmt::format("the loss rises: a mean of {:.4f} over the last {} steps, {:.4f} over those "
                   "with the lowest{}",
                   mean, block_steps, *lowest_mean_, samples_text(metrics.step)));
}

// Each layer is named once, and again after it had recovered.
void RunWarnings::watch_experts(const StepMetrics& metrics) {
  for (const ExpertLoad& load : metrics.expert_loads) {
    Balance& balance = balances_[load.layer];
    const bool bad = has_collapsed(load);
    balance.collapsed = bad ? balance.collapsed + 1 : 0;
    balance.even = bad ? 0 : balance.even + 1;
    if (balance.even >= loads_in_a_row) balance.warned = false;
    if (balance.collapsed < loads_in_a_row || std::exchange(balance.warned, true)) continue;
    warn(unbalanced_experts, metrics.step, metrics.time,
         fmt::format("the load of {} has collapsed: its fullest expert has {:.2f} times the mean, "
                     "and {} of {} experts have no token, after {} such reads in a row; raise "
                     "model.balance_loss, model.sequence_balance_loss or model.balance_rate",
                     load.layer, load.max_over_mean, load.dead, load.experts, loads_in_a_row));
  }
}

void RunWarnings::watch_gpus(const StepMetrics& metrics) {
  constexpr std::chrono::seconds slowed_time{10};
  slowed_.resize(metrics.gpus.size());
  for (std::size_t rank = 0; rank < metrics.gpus.size(); ++rank) {
    const GpuState& gpu = metrics.gpus[rank];
    Slowed& slowed = slowed_[rank];
    if (!is_fault(gpu.slowdowns)) slowed = {};
    if (!is_fault(gpu.slowdowns) || slowed.steps++ == 0) {
      slowed.step = metrics.step;
      slowed.since = metrics.time;
    }
    // A reading counts for a second of steps.
    if (slowed.steps < judged_steps || metrics.time - slowed.since < slowed_time ||
        !may_warn(slowed_gpu, metrics.time))
      continue;
    warn(slowed_gpu, metrics.step, metrics.time,
         fmt::format("{} on the GPU of rank {}{} since step {}{}{}{}: check cooling and power with "
                     "nvidia-smi -q -d PERFORMANCE",
                     slowdown_text(gpu.slowdowns), rank,
                     rank < sources_.hosts.size() ? " on " + sources_.hosts[rank] : "", slowed.step,
                     reading(gpu.sm_mhz, "MHz"), reading(gpu.celsius, "degrees Celsius"),
                     reading(gpu.watts, "W")));
  }
}

void RunWarnings::watch_rounds(const StepMetrics& metrics) {
  if (!metrics.expert_traffic) return;
  passes_ += metrics.expert_traffic->passes;
  in_rounds_ += metrics.expert_traffic->in_rounds;
  if (++round_steps_ < judged_steps) return;
  const double share = static_cast<double>(in_rounds_) / static_cast<double>(passes_);
  if (share > notable_rounds && may_warn(expert_rounds, metrics.time)) {
    warn(
        expert_rounds, metrics.step, metrics.time,
        fmt::format("parallel.expert_capacity_factor too small in {:.0f} % of the passes of steps "
                    "{} to {}: "
                    "their rows were sent and computed in rounds, which takes longer; raise it, or "
                    "even the load (model.balance_loss, model.balance_rate)",
                    100 * share, metrics.step - round_steps_ + 1, metrics.step));
  }
  round_steps_ = passes_ = in_rounds_ = 0;
}

void RunWarnings::saved(const SavedCheckpoint& saved) {
  if (sources_.minutes <= 0) return;
  const double rate =
      saved.seconds > 0 ? 1e-6 * static_cast<double>(saved.bytes) / saved.seconds : 0;
  const double since = last_save_ ? 60e3 * minutes_between(*last_save_, saved.time) : 0.0;
  const bool stood =
      since > 0 && saved.stall_ms > least_stall_ms && saved.stall_ms > notable_stall * since;
  const bool slower = rates_.size() >= compared_saves && saved.seconds > least_write_seconds &&
                      rate < median_of(rates_) / 3;
  if ((stood || slower) && may_warn(slow_checkpoint, saved.time)) {
    std::string text =
        fmt::format("the checkpoint in {} was written at {:.1f} MB/s by rank 0", saved.path, rate);
    if (!rates_.empty()) text += fmt::format(", earlier ones at {:.1f}", median_of(rates_));
    text += fmt::format("; training stopped {:.1f} s for it", 1e-3 * saved.stall_ms);
    if (stood)
      text += fmt::format(", {:.0f} % of the time since the previous one",
                          std::min(100 * saved.stall_ms / since, 100.0));
    warn(slow_checkpoint, saved.step, saved.time, std::move(text));
  }
  last_save_ = saved.time;
  rates_.push_back(rate);
  if (rates_.size() > kept_rates) rates_.erase(rates_.begin());
}

bool RunWarnings::may_warn(Kind kind, Time now) {
  // After the clock was set back, restarts the interval.
  const auto& last = last_[kind];
  return !last || now < *last || minutes_between(*last, now) >= sources_.minutes;
}

void RunWarnings::warn(Kind kind, std::int64_t step, Time now, std::string text) {
  last_[kind] = now;
  if (sources_.warn)
    sources_.warn(
        {.step = step, .kind = std::string(kinds[kind]), .text = std::move(text), .time = now});
}

std::string RunWarnings::samples_text(std::int64_t step) const {
  if (!sources_.samples) return "";
  const std::vector<std::int64_t> samples = sources_.samples(step);
  const std::size_t shown = std::min(samples.size(), most_samples);
  return fmt::format(
      "; samples {}{}", fmt::join(std::span(samples).first(shown), " "),
      shown < samples.size() ? fmt::format(" and {} more", samples.size() - shown) : "");
}

}  // namespace trireme
