// SPDX-License-Identifier: Apache-2.0
#include "launch/bench/data/loader_rates.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <limits>
#include <memory>
#include <vector>

#include "data/loader/loader.h"
#include "runtime/base/clock.h"

namespace trireme {
namespace {

constexpr std::int64_t rows_of_a_batch = 16;
constexpr auto no_limit = std::numeric_limits<std::uint64_t>::max();

std::unique_ptr<Dataset> open_for_bench(const LoaderBench& bench, bool check_blocks) {
  return Dataset::open(bench.path,
                       {.context = bench.context, .split = "train", .check_blocks = check_blocks});
}

struct Pass {
  double rate = 0;         // samples per second
  double nanoseconds = 0;  // of all threads' processor time, per sample
};

// The whole path to a device batch: worker threads, ring, copy stream. Ends at the first of the two
// limits.
Pass loader_pass(const Dataset& data, std::int64_t threads, double seconds, std::uint64_t samples) {
  const std::unique_ptr<Device> device = Device::create(DeviceType::cpu);
  const auto copy = device->make_stream(StreamKind::copy),
             compute = device->make_stream(StreamKind::compute);
  const std::int64_t rows = std::min(rows_of_a_batch, data.size());
  const Sampler sampler({.samples = data.size(), .global_batch = rows, .seed = 1});
  Loader loader(*device, data, BatchPlan::training(sampler, rows, 0, 1, 0),
                {.workers = threads, .prefetch = 8});
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t used = std::clock();  // by this process
  std::uint64_t done = 0;
  double elapsed = 0;
  while (elapsed < seconds && done < samples) {
    static_cast<void>(loader.next(*copy, *compute));
    done += static_cast<std::uint64_t>(rows);
    elapsed = seconds_since(start);
  }
  copy->synchronize();
  return {static_cast<double>(done) / elapsed, 1e9 * static_cast<double>(std::clock() - used) /
                                                   CLOCKS_PER_SEC / static_cast<double>(done)};
}

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

class BlockCosts {
 public:
  void add(const Pass& looking, const Pass& plain) {
    shares_.push_back(1 - plain.nanoseconds / looking.nanoseconds);
    differences_.push_back(looking.nanoseconds - plain.nanoseconds);
  }
  [[nodiscard]] BlockCost median() const { return {median_of(shares_), median_of(differences_)}; }

 private:
  std::vector<double> shares_, differences_;
};

}  // namespace

LoaderRates measure_loader(const LoaderBench& bench) {
  constexpr double long_enough = 3600;
  const auto plain = open_for_bench(bench, /*check_blocks=*/false),
             verified = open_for_bench(bench, true);
  const std::uint64_t epoch = std::min(bench.samples, static_cast<std::uint64_t>(verified->size()));
  static_cast<void>(loader_pass(*verified, bench.threads, long_enough,
                                static_cast<std::uint64_t>(verified->size())));
  LoaderRates best;
  BlockCosts later_costs, first_costs;
  const auto keep = [](double& rate_so_far, const Pass& now) {
    rate_so_far = std::max(rate_so_far, now.rate);
  };
  for (std::int64_t round = 0; round < bench.rounds; ++round) {
    const Pass later = loader_pass(*verified, bench.threads, bench.seconds, no_limit),
               later_unchecked = loader_pass(*plain, bench.threads, bench.seconds, no_limit);
    const auto fresh = open_for_bench(bench, true);
    const Pass first = loader_pass(*fresh, bench.threads, long_enough, epoch),
               first_unchecked = loader_pass(*plain, bench.threads, long_enough, epoch);
    keep(best.later, later);
    keep(best.later_unchecked, later_unchecked);
    keep(best.first, first);
    keep(best.first_unchecked, first_unchecked);
    later_costs.add(later, later_unchecked);
    first_costs.add(first, first_unchecked);
  }
  best.later_cost = later_costs.median();
  best.first_cost = first_costs.median();
  return best;
}

double loader_rate(const Dataset& data, std::int64_t threads, double seconds) {
  return loader_pass(data, threads, seconds, no_limit).rate;
}

}  // namespace trireme
