// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/cluster.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/base/philox.h"

namespace trireme::plan {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();
constexpr double seconds_per_hour = 3600;
constexpr double bytes_per_parameter = 12;  // weight and two moments in fp32
// Attempts per step of the run after which failures are taken to win.
constexpr std::int64_t patience = 100;

// (0, 1), with 53 bits from two words.
class Draws {
 public:
  Draws(std::uint64_t seed, std::uint64_t stream)
      : random_(Philox::keyed(seed, RandomPurpose::sample)), stream_(stream) {}

  double next() {
    const auto words = random_(stream_, count_++);
    const std::uint64_t bits = (std::uint64_t{words[0]} << 21) ^ (words[1] >> 11);
    return (static_cast<double>(bits) + 0.5) * 0x1p-53;
  }

 private:
  Philox random_;
  std::uint64_t stream_, count_ = 0;
};

class Run {
 public:
  Run(const StepEstimate& step, const Hardware& hardware, const RunOptions& options)
      : options_(options),
        restart_(hardware.reliability.restart_seconds),
        base_(step.total - step.straggler),
        spread_((step.forward + step.backward + step.recompute) * hardware.straggler_deviation),
        mtbf_(job_mtbf_seconds(hardware, options.ranks)),
        stragglers_(options.seed, 0),
        failures_(options.seed, 1) {}

  RunEstimate simulate() {
    next_failure_ = time_to_failure();
    std::int64_t attempts = 0;
    while (done_ < options_.steps && attempts++ < patience * options_.steps) {
      const double seconds = step_seconds();
      const bool saves =
          options_.checkpoint_every > 0 && (done_ + 1) % options_.checkpoint_every == 0;
      if (!work(seconds, saves ? options_.checkpoint_seconds : 0)) continue;
      ++done_;
      if (saves) {
        run_.useful += since_save_;
        since_save_ = 0;
        saved_ = done_;
      }
    }
    run_.ended = done_ == options_.steps;
    run_.useful += since_save_;
    run_.wall = clock_;
    run_.mean_step = run_.useful / static_cast<double>(std::max<std::int64_t>(done_, 1));
    run_.goodput = clock_ > 0 ? run_.useful / clock_ : 1;
    return run_;
  }

 private:
  double time_to_failure() { return mtbf_ == never ? never : -mtbf_ * std::log(failures_.next()); }

  double step_seconds() {
    if (spread_ == 0 || options_.ranks == 1) return base_;
    const double largest = normal_quantile(std::pow(stragglers_.next(), 1.0 / options_.ranks));
    return base_ + spread_ * std::max(0.0, largest);
  }

  // False when a failure came before the end; the run then stands at its last checkpoint.
  bool work(double seconds, double saving) {
    if (clock_ + seconds + saving < next_failure_) {
      clock_ += seconds + saving;
      since_save_ += seconds;
      run_.checkpoints += saving;
      return true;
    }
    run_.lost += since_save_ + next_failure_ - clock_;
    since_save_ = 0;
    done_ = saved_;
    do {
      ++run_.failures;
      clock_ = next_failure_;
      next_failure_ = clock_ + time_to_failure();
      const double up = std::min(clock_ + restart_, next_failure_);
      run_.restarts += up - clock_;
      clock_ = up;
    } while (clock_ == next_failure_ && run_.failures < patience * options_.steps);
    return false;
  }

  const RunOptions& options_;
  double restart_, base_, spread_, mtbf_;
  Draws stragglers_, failures_;
  double clock_ = 0, next_failure_ = 0, since_save_ = 0;
  std::int64_t done_ = 0, saved_ = 0;
  RunEstimate run_;
};

}  // namespace

RunEstimate simulate_run(const StepEstimate& step, const Hardware& hardware,
                         const RunOptions& options) {
  return Run(step, hardware, options).simulate();
}

double checkpoint_seconds(double parameters, int ranks, const Hardware& hardware) {
  const double bandwidth = hardware.reliability.checkpoint_bandwidth;
  return bandwidth > 0 ? bytes_per_parameter * parameters / ranks / bandwidth : 0;
}

double job_mtbf_seconds(const Hardware& hardware, int ranks) {
  const double hours = hardware.reliability.mtbf_hours;
  return hours > 0 ? hours * seconds_per_hour / ranks : never;
}

double expected_goodput(double interval, double cost, double mtbf, double restart) {
  if (mtbf == never) return interval / (interval + cost);
  return interval / (mtbf * std::exp(restart / mtbf) * std::expm1((interval + cost) / mtbf));
}

CheckpointIntervals checkpoint_intervals(double cost, double mtbf, double restart) {
  if (mtbf == never) return {never, never, never};
  CheckpointIntervals found{.young = std::sqrt(2 * cost * mtbf)};
  const double ratio = cost / (2 * mtbf);
  found.daly = cost < 2 * mtbf ? found.young * (1 + std::sqrt(ratio) / 3 + ratio / 9) - cost : mtbf;
  // One maximum: narrowed by thirds, on a logarithmic scale.
  double low = std::log(1e-6 * mtbf), high = std::log(100 * mtbf);
  for (int i = 0; i < 200; ++i) {
    const double a = low + (high - low) / 3, b = high - (high - low) / 3;
    if (expected_goodput(std::exp(a), cost, mtbf, restart) <
        expected_goodput(std::exp(b), cost, mtbf, restart)) {
      low = a;
    } else {
      high = b;
    }
  }
  found.best = std::exp((low + high) / 2);
  return found;
}

}  // namespace trireme::plan
