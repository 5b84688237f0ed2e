// SPDX-License-Identifier: Apache-2.0
#include "launch/bench/model/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "launch/bench/model/measure.h"
#include "launch/engine/engine.h"
#include "models/config.h"
#include "runtime/base/clock.h"

namespace trireme::model_bench {
namespace {

using Sums = std::map<std::pair<std::string, double>, OperationTime>;

void add(Sums& sums, const WorkLog& log) {
  for (const WorkOperation& each : log.operations()) {
    OperationTime& sum = sums[{each.name, each.traffic.flops}];
    sum.calls += 1;
    sum.seconds += each.seconds;
    sum.traffic.read += each.traffic.read;
    sum.traffic.written += each.traffic.written;
    sum.traffic.flops += each.traffic.flops;
  }
}

// `profile` has its steps and limits.
std::vector<OperationTime> means(const Sums& sums, const StepProfile& profile) {
  std::vector<OperationTime> operations;
  for (const auto& [key, sum] : sums) {
    const double share = 1.0 / profile.steps;
    OperationTime mean{.name = key.first,
                       .calls = share * sum.calls,
                       .seconds = share * sum.seconds,
                       .traffic = {.read = share * sum.traffic.read,
                                   .written = share * sum.traffic.written,
                                   .flops = share * sum.traffic.flops}};
    const double least = std::max(mean.traffic.flops / profile.flops_limit,
                                  (mean.traffic.read + mean.traffic.written) / profile.bytes_limit);
    mean.lost = std::max(0.0, mean.seconds - least);
    operations.push_back(std::move(mean));
  }
  std::ranges::sort(operations, std::ranges::greater(), &OperationTime::lost);
  return operations;
}

}  // namespace

StepProfile profile_step(Device& device, const Config& config, double seconds) {
  constexpr int min_steps = 5, warm_up = 2;
  Config eager = config;
  eager.device.graphs = GraphMode::off;
  const std::shared_ptr<Device> borrowed(&device, [](Device*) {});
  Engine all(single_resources(borrowed), eager, Purpose::train, {.batches = synthetic_batches});
  all.begin();
  StepEngine& engine = all.training().state->engine;
  BatchSource& batches = *all.training().batches;
  Sums sums;
  StepProfile profile;
  WorkLog log(true);
  for (std::int64_t step = 0; profile.steps < min_steps || profile.seconds < seconds; ++step) {
    log.clear();
    const auto start = std::chrono::steady_clock::now();
    engine.run(step, batches);
    static_cast<void>(engine.read(step));
    log.read_times();
    const double taken = seconds_since(start);
    if (step < warm_up) continue;
    ++profile.steps;
    profile.seconds += taken;
    add(sums, log);
  }
  engine.settle();
  profile.seconds /= profile.steps;
  profile.flops_limit = time_matmuls(device, compute_dtype(config.precision)).flops;
  profile.bytes_limit = time_copy(device);
  profile.operations = means(sums, profile);
  return profile;
}

std::string to_text(const StepProfile& profile) {
  std::string text = fmt::format(
      "a step of {:.2f} ms on one rank, mean of {}; very large matmuls reach {:.1f} GFLOP/s here, "
      "copies {:.1f} GB/s\n{:32} {:>7} {:>9} {:>7} {:>9} {:>9} {:>9} {:>8}\n",
      1e3 * profile.seconds, profile.steps, 1e-9 * profile.flops_limit, 1e-9 * profile.bytes_limit,
      "operation", "calls", "ms", "share", "lost ms", "MFLOP", "GFLOP/s", "GB/s");
  double inside = 0;
  for (const OperationTime& each : profile.operations) {
    inside += each.seconds;
    const double flops = each.traffic.flops;
    const double bytes = (each.traffic.read + each.traffic.written) / each.seconds;
    text += fmt::format(
        "{:32} {:>7.6g} {:>9.3f} {:>5.1f} % {:>9.3f} {:>9} {:>9} {:>8.1f}\n", each.name, each.calls,
        1e3 * each.seconds, 100 * each.seconds / profile.seconds, 1e3 * each.lost,
        flops > 0 ? fmt::format("{:.1f}", 1e-6 * flops / each.calls) : "",
        flops > 0 ? fmt::format("{:.1f}", 1e-9 * flops / each.seconds) : "", 1e-9 * bytes);
  }
  const double rest = profile.seconds - inside;
  text += fmt::format("{:32} {:>7} {:>9.3f} {:>5.1f} %\n", "outside of operations", "", 1e3 * rest,
                      100 * rest / profile.seconds);
  return text +
         "lost: beyond the time that the FLOPs or the bytes take at the two limits; MFLOP: of a "
         "call; GB/s: what a GPU's kernels read and write of the operands, so operands that stay "
         "in a cache exceed the limit.\n";
}

}  // namespace trireme::model_bench
