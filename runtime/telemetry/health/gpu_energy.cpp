// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <memory>

#include "runtime/telemetry/health/energy.h"
#include "runtime/telemetry/health/nvml.h"

namespace trireme {

namespace {

using NvmlMigMode = int(Nvml::Device device, unsigned* now, unsigned* next);
// Millijoules since the driver was loaded.
using NvmlEnergy = int(Nvml::Device device, unsigned long long* millijoules);

class GpuEnergy final : public EnergyCounter {
 public:
  GpuEnergy(std::shared_ptr<Nvml> nvml, Nvml::Device device, NvmlEnergy* read,
            unsigned long long before)
      : nvml_(std::move(nvml)), device_(device), read_(read), before_(before) {}

  std::optional<double> take() override {
    unsigned long long now = 0;
    // A counter that fell was reset by a reload of the driver.
    const bool good = read_(device_, &now) == Nvml::success;
    const bool known = good && complete_ && now >= before_;
    const auto millijoules = static_cast<double>(now - before_);
    complete_ = good;
    if (good) before_ = now;
    return known ? std::optional(1e-3 * millijoules) : std::nullopt;
  }

 private:
  std::shared_ptr<Nvml> nvml_;
  Nvml::Device device_;
  NvmlEnergy* read_;
  unsigned long long before_;
  bool complete_ = true;
};

}  // namespace

EnergySource gpu_energy(const std::string& bus) {
  const auto nvml = Nvml::open();
  if (!nvml) return {.problem = "libnvidia-ml.so.1 is missing, or does not start"};
  auto* const read = nvml->find<NvmlEnergy>("nvmlDeviceGetTotalEnergyConsumption");
  auto* const mig_mode = nvml->find<NvmlMigMode>("nvmlDeviceGetMigMode");
  Nvml::Device const device = nvml->device(bus);
  unsigned long long now = 0;
  if (device == nullptr || read == nullptr)
    return {.problem = fmt::format("NVML does not know GPU {}", bus)};
  unsigned split = 0, next = 0;
  if (mig_mode != nullptr && mig_mode(device, &split, &next) == Nvml::success && split != 0)
    return {.problem = fmt::format(
                "GPU {} is split (MIG), and only the energy of all parts is counted", bus)};
  if (read(device, &now) != Nvml::success)
    return {.problem = fmt::format("GPU {} does not count its energy", bus)};
  return {.counter = std::make_unique<GpuEnergy>(nvml, device, read, now)};
}

}  // namespace trireme
