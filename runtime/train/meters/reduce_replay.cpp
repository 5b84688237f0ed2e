// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/meters/reduce_replay.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "runtime/base/clock.h"

namespace trireme {
namespace {

// The median of a few calls behind one that finds its algorithm.
double call_milliseconds(Communicator& group, Stream& comm, const Tensor& values, bool scatter) {
  std::array<double, 3> took{};
  const std::int64_t slice = values.count() / group.size();
  const auto call = [&] {
    group.barrier();
    const auto start = std::chrono::steady_clock::now();
    if (scatter) {
      group.reduce_scatter(comm, values, values.range(slice * group.rank(), slice), ReduceOp::sum);
    } else {
      group.all_reduce(comm, values, values, ReduceOp::sum);
    }
    comm.synchronize();
    return 1e3 * seconds_since(start);
  };
  call();
  for (double& milliseconds : took)
    milliseconds = call();
  std::ranges::sort(took);
  return took[1];
}

}  // namespace

ReduceCost measure_reduction(Communicator& group, Stream& comm, const Tensor& values,
                             std::int64_t small, bool scatter) {
  const std::int64_t ranks = group.size();
  const auto slices = [&](std::int64_t count) {
    return std::max<std::int64_t>(count / ranks, 1) * ranks;
  };
  const std::int64_t large = values.count() / ranks * ranks;
  TRIREME_EXPECTS(large >= ranks, "{} values on {} ranks", values.count(), ranks);
  const std::int64_t few = std::min(slices(small), large);
  comm.device().fill_zero(comm, values.data, values.bytes());
  const double quick = call_milliseconds(group, comm, values.range(0, few), scatter);
  if (few == large) return {.call = quick};
  const double slow = call_milliseconds(group, comm, values.range(0, large), scatter);
  const double element = std::max(slow - quick, 0.0) / static_cast<double>(large - few);
  return {.call = std::max(quick - element * static_cast<double>(few), 0.0), .element = element};
}

std::vector<std::int64_t> joined_buckets(std::span<const std::int64_t> buckets,
                                         std::int64_t target) {
  std::vector<std::int64_t> joined;
  for (const std::int64_t count : buckets) {
    if (joined.empty() || joined.back() >= target) {
      joined.push_back(count);
    } else {
      joined.back() += count;
    }
  }
  return joined;
}

double exposed_reduction(std::span<const std::int64_t> buckets, double backward,
                         const ReduceCost& cost) {
  const auto all = static_cast<double>(
      std::max(std::accumulate(buckets.begin(), buckets.end(), std::int64_t{0}), std::int64_t{1}));
  double there = 0, end = 0;
  for (const std::int64_t count : buckets) {
    there += backward * static_cast<double>(count) / all;
    end = std::max(end, there) + cost.of(count);
  }
  return std::max(end - backward, 0.0);
}

}  // namespace trireme
