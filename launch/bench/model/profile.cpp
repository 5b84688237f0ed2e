// SPDX-License-Identifier: Apache-2.0
#include "launch/bench/model/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "launch/bench/model/measure.h"
#include "launch/bench/model/synthetic_batches.h"
#include "launch/engine/engine.h"
#include "models/config.h"
#include "runtime/base/clock.h"

namespace trireme::model_bench {
namespace {

using Sums = std::map<std::string, OperationTime>;

void add(Sums& sums, const WorkLog& log) {
  for (const WorkOperation& each : log.operations()) {
    OperationTime& sum =
        sums.try_emplace(each.name, OperationTime{.name = each.name}).first->second;
    sum.calls += 1;
    sum.seconds += each.seconds;
    sum.traffic.read += each.traffic.read;
    sum.traffic.written += each.traffic.written;
    sum.traffic.flops += each.traffic.flops;
  }
}

OperationTime mean_of(const OperationTime& sum, int steps) {
  const double share = 1.0 / steps;
  return {.name = sum.name,
          .calls = share * sum.calls,
          .seconds = share * sum.seconds,
          .traffic = {.read = share * sum.traffic.read,
                      .written = share * sum.traffic.written,
                      .flops = share * sum.traffic.flops}};
}

}  // namespace

StepProfile profile_step(Device& device, const Config& config, double seconds) {
  if (device.type() != DeviceType::cpu) {
    fail(ExitCode::config,
         "bench machine --profile times operations on the CPU as they run; of a GPU's, `trireme "
         "bench "
         "kernels` counts what they launch and move");
  }
  constexpr int min_steps = 5, warm_up = 2;
  const std::shared_ptr<Device> borrowed(&device, [](Device*) {});
  Engine all(single_resources(borrowed), config, Purpose::train, {.batches = synthetic_batches});
  all.begin();
  StepEngine& engine = all.training().state->engine;
  BatchSource& batches = *all.training().batches;
  Sums sums;
  StepProfile profile;
  WorkLog log;
  for (std::int64_t step = 0; profile.steps < min_steps || profile.seconds < seconds; ++step) {
    log.clear();
    const auto start = std::chrono::steady_clock::now();
    engine.run(step, batches);
    static_cast<void>(engine.read(step));
    const double taken = seconds_since(start);
    if (step < warm_up) continue;
    ++profile.steps;
    profile.seconds += taken;
    add(sums, log);
  }
  engine.settle();
  profile.seconds /= profile.steps;
  for (const auto& [name, sum] : sums)
    profile.operations.push_back(mean_of(sum, profile.steps));
  std::ranges::sort(profile.operations, std::ranges::greater(), &OperationTime::seconds);
  profile.flops_limit = time_matmuls(device, compute_dtype(config.precision)).flops;
  profile.bytes_limit = time_copy(device);
  return profile;
}

std::string to_text(const StepProfile& profile) {
  std::string text = fmt::format(
      "a step of {:.2f} ms on one rank, mean of {}; very large matmuls reach {:.1f} GFLOP/s here, "
      "copies {:.1f} GB/s\n{:32} {:>7} {:>9} {:>7} {:>9} {:>8}\n",
      1e3 * profile.seconds, profile.steps, 1e-9 * profile.flops_limit, 1e-9 * profile.bytes_limit,
      "operation", "calls", "ms", "share", "GFLOP/s", "GB/s");
  double inside = 0;
  for (const OperationTime& each : profile.operations) {
    inside += each.seconds;
    const double flops = each.traffic.flops / each.seconds;
    const double bytes = (each.traffic.read + each.traffic.written) / each.seconds;
    text += fmt::format("{:32} {:>7.6g} {:>9.3f} {:>5.1f} % {:>9} {:>8.1f}\n", each.name,
                        each.calls, 1e3 * each.seconds, 100 * each.seconds / profile.seconds,
                        flops > 0 ? fmt::format("{:.1f}", 1e-9 * flops) : "", 1e-9 * bytes);
  }
  const double rest = profile.seconds - inside;
  text += fmt::format("{:32} {:>7} {:>9.3f} {:>5.1f} %\n", "outside of operations", "", 1e3 * rest,
                      100 * rest / profile.seconds);
  return text +
         "GB/s: what a GPU's kernels would read and write of the operands; operands that stay in "
         "the "
         "cache pass the limit.\n";
}

}  // namespace trireme::model_bench
