// SPDX-License-Identifier: Apache-2.0
// NVML is part of the driver, so it is loaded at run time; the build has neither its headers nor
// its library.
#include <dlfcn.h>
#include <fmt/format.h>

#include <memory>

#include "runtime/telemetry/health/energy.h"

namespace trireme {
namespace {

// From nvml.h, as documented for nvmlInit_v2, nvmlDeviceGetHandleByPciBusId_v2,
// nvmlDeviceGetMigMode and nvmlDeviceGetTotalEnergyConsumption (millijoules since the driver was
// loaded).
using NvmlDevice = void*;
using NvmlCall = int();
using NvmlFind = int(const char* bus, NvmlDevice* device);
using NvmlMigMode = int(NvmlDevice device, unsigned* now, unsigned* next);
using NvmlEnergy = int(NvmlDevice device, unsigned long long* millijoules);

constexpr int nvml_success = 0;

class Nvml {
 public:
  // Null if the driver has none, or it fails to start.
  static std::shared_ptr<Nvml> open() {
    void* const library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return {};
    std::shared_ptr<Nvml> nvml(new Nvml(library));
    const auto start = nvml->find<NvmlCall>("nvmlInit_v2");
    nvml->started_ = start != nullptr && start() == nvml_success;
    return nvml->started_ ? nvml : nullptr;
  }
  ~Nvml() {
    const auto stop = find<NvmlCall>("nvmlShutdown");
    if (started_ && stop != nullptr) stop();
    ::dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  template <typename Function>
  [[nodiscard]] Function* find(const char* name) const {
    return reinterpret_cast<Function*>(::dlsym(library_, name));
  }

 private:
  explicit Nvml(void* library) : library_(library) {}
  void* library_;
  bool started_ = false;
};

class GpuEnergy final : public EnergyCounter {
 public:
  GpuEnergy(std::shared_ptr<Nvml> nvml, NvmlDevice device, NvmlEnergy* read,
            unsigned long long before)
      : nvml_(std::move(nvml)), device_(device), read_(read), before_(before) {}

  std::optional<double> take() override {
    unsigned long long now = 0;
    // A counter that fell was reset by a reload of the driver.
    const bool good = read_(device_, &now) == nvml_success;
    const bool known = good && complete_ && now >= before_;
    const auto millijoules = static_cast<double>(now - before_);
    complete_ = good;
    if (good) before_ = now;
    return known ? std::optional(1e-3 * millijoules) : std::nullopt;
  }

 private:
  std::shared_ptr<Nvml> nvml_;
  NvmlDevice device_;
  NvmlEnergy* read_;
  unsigned long long before_;
  bool complete_ = true;
};

}  // namespace

EnergySource gpu_energy(const std::string& bus) {
  const auto nvml = Nvml::open();
  if (!nvml) return {.problem = "libnvidia-ml.so.1 is missing, or does not start"};
  auto* const by_bus = nvml->find<NvmlFind>("nvmlDeviceGetHandleByPciBusId_v2");
  auto* const read = nvml->find<NvmlEnergy>("nvmlDeviceGetTotalEnergyConsumption");
  auto* const mig_mode = nvml->find<NvmlMigMode>("nvmlDeviceGetMigMode");
  NvmlDevice device = nullptr;
  unsigned long long now = 0;
  if (by_bus == nullptr || read == nullptr || by_bus(bus.c_str(), &device) != nvml_success)
    return {.problem = fmt::format("NVML does not know GPU {}", bus)};
  unsigned split = 0, next = 0;
  if (mig_mode != nullptr && mig_mode(device, &split, &next) == nvml_success && split != 0)
    return {.problem = fmt::format(
                "GPU {} is split (MIG), and only the energy of all parts is counted", bus)};
  if (read(device, &now) != nvml_success)
    return {.problem = fmt::format("GPU {} does not count its energy", bus)};
  return {.counter = std::make_unique<GpuEnergy>(nvml, device, read, now)};
}

}  // namespace trireme
