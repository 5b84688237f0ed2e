// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/health/gpu_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <chrono>
#include <string_view>
#include <vector>

#include "runtime/telemetry/health/nvml.h"

namespace trireme {
namespace {

struct Slowdown {
  std::uint64_t bit;
  std::string_view name;
  bool fault;
};
constexpr std::array slowdown_names{
    Slowdown{0x04, "power cap", false},       Slowdown{0x08, "hardware slowdown", true},
    Slowdown{0x20, "thermal slowdown", true}, Slowdown{0x40, "hardware thermal slowdown", true},
    Slowdown{0x80, "power brake", true},
};

struct Utilization {
  unsigned gpu = 0, memory = 0;  // percent
};
struct Memory {
  unsigned long long total = 0, free = 0, used = 0;  // bytes
};
constexpr int sm_clock = 1, gpu_sensor = 0;

class StateReader {
 public:
  StateReader(std::shared_ptr<Nvml> nvml, Nvml::Device device)
      : nvml_(std::move(nvml)), device_(device) {}

  [[nodiscard]] GpuState read() const {
    GpuState state{.known = true};
    Utilization busy;
    Memory memory;
    unsigned clock = 0, milliwatts = 0, celsius = 0;
    unsigned long long reasons = 0;
    if (get("nvmlDeviceGetUtilizationRates", &busy)) state.utilization = 1e-2 * busy.gpu;
    if (get("nvmlDeviceGetMemoryInfo", &memory))
      state.memory_bytes = static_cast<double>(memory.used);
    if (get_of("nvmlDeviceGetClockInfo", sm_clock, &clock)) state.sm_mhz = clock;
    if (get("nvmlDeviceGetPowerUsage", &milliwatts)) state.watts = 1e-3 * milliwatts;
    if (get_of("nvmlDeviceGetTemperature", gpu_sensor, &celsius)) state.celsius = celsius;
    if (get("nvmlDeviceGetCurrentClocksThrottleReasons", &reasons)) state.slowdowns = reasons;
    return state;
  }

 private:
  template <typename Value>
  [[nodiscard]] bool get(const char* name, Value* value) const {
    auto* const call = nvml_->find<int(Nvml::Device, Value*)>(name);
    return call != nullptr && call(device_, value) == Nvml::success;
  }
  [[nodiscard]] bool get_of(const char* name, int kind, unsigned* value) const {
    auto* const call = nvml_->find<int(Nvml::Device, int, unsigned*)>(name);
    return call != nullptr && call(device_, kind, value) == Nvml::success;
  }

  std::shared_ptr<Nvml> nvml_;
  Nvml::Device device_;
};

}  // namespace

std::string slowdown_text(std::uint64_t slowdowns) {
  std::vector<std::string_view> names;
  for (const Slowdown& reason : slowdown_names)
    if ((slowdowns & reason.bit) != 0) names.push_back(reason.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

bool is_fault(std::uint64_t slowdowns) {
  for (const Slowdown& reason : slowdown_names)
    if (reason.fault && (slowdowns & reason.bit) != 0) return true;
  return false;
}

std::function<GpuState()> gpu_state_reader(const std::string& bus) {
  using Clock = std::chrono::steady_clock;
  const auto nvml = Nvml::open();
  Nvml::Device const device = nvml ? nvml->device(bus) : nullptr;
  if (device == nullptr) return {};
  return [reader = StateReader(nvml, device), last = GpuState{},
          next = Clock::time_point{}]() mutable {
    if (const auto now = Clock::now(); now >= next) {
      last = reader.read();
      next = now + std::chrono::seconds(1);
    }
    return last;
  };
}

}  // namespace trireme
