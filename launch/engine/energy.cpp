// SPDX-License-Identifier: Apache-2.0
#include "launch/engine/energy.h"

#include <limits>
#include <memory>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/device/gpu_facts.h"
#include "runtime/telemetry/health/energy.h"

namespace trireme {
namespace {

constexpr double not_known = std::numeric_limits<double>::quiet_NaN();

EnergySource gpu_of_rank(int local_rank, bool shared) {
  const CudaFacts facts = cuda_facts();
  if (facts.gpus.empty()) return {.problem = "no GPU is seen"};
  const auto index = static_cast<std::size_t>(local_rank) % facts.gpus.size();
  if (shared) return {.problem = "ranks share GPUs"};
  return gpu_energy(facts.gpus[index].bus);
}

}  // namespace

std::function<double()> energy_of_rank(int local_rank, const Config& config) {
  const bool on_gpu = config.device.type == DeviceChoice::cuda;
  if (!on_gpu && local_rank != 0) return [] { return 0.0; };
  EnergySource source = on_gpu ? gpu_of_rank(local_rank, config.device.share) : package_energy();
  if (!source.counter) {
    log::get("train").debug("energy is not counted: {}", source.problem);
    return [] { return not_known; };
  }
  // Skips the first step, which would include the energy of the start.
  return [counter = std::shared_ptr(std::move(source.counter)), first = true]() mutable {
    const double joules = counter->take().value_or(not_known);
    return std::exchange(first, false) ? not_known : joules;
  };
}

}  // namespace trireme
