// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/health/nvml.h"

namespace trireme {

std::shared_ptr<Nvml> Nvml::open() {
  void* const library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {};
  std::shared_ptr<Nvml> nvml(new Nvml(library));
  auto* const start = nvml->find<int()>("nvmlInit_v2");
  nvml->started_ = start != nullptr && start() == success;
  return nvml->started_ ? nvml : nullptr;
}

Nvml::~Nvml() {
  auto* const stop = find<int()>("nvmlShutdown");
  if (started_ && stop != nullptr) stop();
  ::dlclose(library_);
}

Nvml::Device Nvml::device(const std::string& bus) const {
  auto* const by_bus =
      find<int(const char* bus, Device* device)>("nvmlDeviceGetHandleByPciBusId_v2");
  Device device = nullptr;
  return by_bus != nullptr && by_bus(bus.c_str(), &device) == success ? device : nullptr;
}

}  // namespace trireme
