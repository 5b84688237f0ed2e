// SPDX-License-Identifier: Apache-2.0
#include "launch/engine/rank_meter.h"

#include "data/shard/read_times.h"
#include "runtime/base/test_hooks.h"
#include "runtime/device/gpu_facts.h"
#include "runtime/telemetry/health/energy.h"

namespace trireme {
namespace {

// Share of a step; smaller waits are not reported.
constexpr double telling_wait = 0.05;

}  // namespace

[[gnu::weak]] StepMeter* planted_meter() {
  return nullptr;
}

RankMeter::RankMeter(int local_rank, const Config& config) {
  if (local_rank < 0) return;
  if (config.device.type != DeviceChoice::cuda) {
    joules_ = local_rank == 0 ? joules_by_step(package_energy()) : [] { return 0.0; };
    return;
  }
  const CudaFacts facts = cuda_facts();
  std::string bus;
  if (!facts.gpus.empty())
    bus = facts.gpus[static_cast<std::size_t>(local_rank) % facts.gpus.size()].bus;
  gpu_ = gpu_state_reader(bus);
  joules_ = joules_by_step(config.device.share ? EnergySource{.problem = "ranks share GPUs"}
                                               : gpu_energy(bus));
}

void RankMeter::read(StepReport& report) {
  RankStep& own = report.own;
  if (gpu_) own.gpu = gpu_();
  if (joules_ && !test_rests(report.step + 1)) own.joules = joules_();
  if (own.times[TimePart::data_wait] <= telling_wait * own.times[TimePart::period]) return;
  if (const std::optional<SlowFile> file = slowest_file())
    own.slow_file = {.file = number_of_path(file->path),
                     .seconds = file->seconds,
                     .bytes = static_cast<double>(file->bytes)};
}

}  // namespace trireme
