// SPDX-License-Identifier: Apache-2.0
// What a GPU reports about itself through NVML: how busy, hot and fast it is, and what slows it
// down.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

namespace trireme {

// Trivially copyable, since ranks exchange it as bytes. NaN: not reported.
struct GpuState {
  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

  double utilization = unknown;   // share of NVML's last period in which a kernel ran, 0..1
  double memory_bytes = unknown;  // used by all processes
  double sm_mhz = unknown;
  double watts = unknown;
  double celsius = unknown;
  std::uint64_t slowdowns = 0;  // nvmlClocksEventReasons; see slowdown_text()
  bool known = false;           // false on CPUs and without NVML
};

// By their key in metrics.jsonl's lists by rank.
inline constexpr std::array gpu_numbers{
    std::pair{std::string_view("utilization"), &GpuState::utilization},
    std::pair{std::string_view("memory_bytes"), &GpuState::memory_bytes},
    std::pair{std::string_view("sm_mhz"), &GpuState::sm_mhz},
    std::pair{std::string_view("watts"), &GpuState::watts},
    std::pair{std::string_view("celsius"), &GpuState::celsius}};

// "thermal slowdown, power brake" of reasons that lower the clock; "" for none. A power cap is
// usual under load, so it is in metrics.jsonl but no reason to warn; see is_fault().
[[nodiscard]] std::string slowdown_text(std::uint64_t slowdowns);
[[nodiscard]] bool is_fault(std::uint64_t slowdowns);

// Reads the GPU at a PCI address, at most once a second; between reads it returns the last state.
// Empty without NVML or the GPU.
[[nodiscard]] std::function<GpuState()> gpu_state_reader(const std::string& bus);

}  // namespace trireme
