// SPDX-License-Identifier: Apache-2.0
// Energy that devices count themselves: packages of a host's processors (RAPL, as Linux shows it
// under /sys/class/powercap) and GPUs (NVML).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace trireme {

class EnergyCounter {
 public:
  virtual ~EnergyCounter() = default;
  EnergyCounter(const EnergyCounter&) = delete;
  EnergyCounter& operator=(const EnergyCounter&) = delete;
  // Joules since the last call or the construction; empty if a read failed, also in the next call.
  [[nodiscard]] virtual std::optional<double> take() = 0;

 protected:
  EnergyCounter() = default;
};

// Either a counter, or why there is none.
struct EnergySource {
  std::unique_ptr<EnergyCounter> counter{};
  std::string problem{};
};

inline constexpr const char* powercap_root = "/sys/class/powercap";

// All packages of this host together; none if one of them is unreadable. A counter that wraps more
// than once between two calls (a quarter of an hour at full load) shows too little.
[[nodiscard]] EnergySource package_energy(const std::string& root = powercap_root);
// The whole GPU at a PCI address ("00000000:65:00.0"), from Volta on.
[[nodiscard]] EnergySource gpu_energy(const std::string& bus);

// The joules of each step, called at its end; NaN: unknown, as in the first step, which would
// include the start. Logs at debug level why there is no counter.
[[nodiscard]] std::function<double()> joules_by_step(EnergySource source);

}  // namespace trireme
