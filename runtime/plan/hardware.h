// SPDX-License-Identifier: Apache-2.0
// What the planner knows of a machine: configs/hardware/*.yaml, or what `trireme bench machine`
// measured. Seconds, bytes, FLOP/s throughout.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/config/choices.h"

namespace trireme::plan {

struct DeviceFacts {
  double memory_bytes = 0;     // of one rank's device
  double framework_bytes = 0;  // taken by contexts and libraries before the first tensor
  double memory_bandwidth = 0;
  double launch_seconds = 0;           // a kernel or op call that has nothing to do
  std::array<double, 5> peak_flops{};  // by resolved Precision; 0 = the device cannot
};

// Shares of the peaks that kernels reach.
struct Efficiency {
  double matmul = 1;  // of large matmuls
  // Of the flops that attention does outside its projections: with heads of 128 or more, of 64 or
  // fewer (0: the same), in between a mixture.
  double attention = 1, attention_64 = 0;
  double convolution = 1;  // of large convolutions
  double memory = 1;       // of the bandwidth, by element-wise kernels and the optimizer
  // A matmul whose smallest dimension is d reaches matmul * d / (d + half_dimension).
  double half_dimension = 0;

  [[nodiscard]] double matmul_of(double smallest_dimension) const {
    return matmul * smallest_dimension / (smallest_dimension + half_dimension);
  }
  [[nodiscard]] double attention_of(double head_size) const {
    if (attention_64 == 0) return attention;
    const double share = std::clamp((head_size - 64) / 64, 0.0, 1.0);
    return attention_64 + share * (attention - attention_64);
  }
};

struct Node {
  int ranks = 1;  // that it runs when full
  // Processor cores that ranks share; 0 = each rank computes on a device of its own.
  int cores = 0;
  // Compute time with as many ranks as cores, relative to one rank alone (caches, memory, clock).
  double crowded_slowdown = 1;
  // With more ranks than cores: seconds until the scheduler ends the turn of one that computes, a
  // tick of Linux with HZ=250.
  double scheduling_delay = 4e-3;
};

struct Link {
  double latency = 0;    // alpha: seconds of one message
  double bandwidth = 0;  // 1 / beta: bytes per second that one rank sends while it receives as much
};

// Ranks [n * domain, (n + 1) * domain) reach each other by `inside` (shared memory, NVLink); all
// others by `between`, over `rails` adapters per domain of `between.bandwidth` each.
struct Links {
  int domain = 1;
  int rails = 1;
  Link inside{}, between{};
  // Share of communication beside computation that costs it nothing: 1 for engines of its own, 0
  // where both need the same cores.
  double overlap = 1;
};

struct Reliability {
  double mtbf_hours = 0;       // of one rank's device and its share of the node; 0 = never fails
  double restart_seconds = 0;  // from a failure to the first step after it
  double checkpoint_bandwidth = 0;  // bytes per second that one rank writes; 0 = free
};

struct Hardware {
  std::string name;
  DeviceFacts device{};
  Efficiency efficiency{};
  // Of layers whose operations are counted one by one (layer_work.h): what `efficiency` of layers
  // known by their matrices alone has to cover beside the products is counted there by itself. 0:
  // as in `efficiency`.
  Efficiency counted{.matmul = 0, .attention = 0, .convolution = 0, .memory = 0};
  Node node{};
  Links links{};
  Reliability reliability{};
  double straggler_deviation = 0;  // of a rank's step time, relative to the mean
  double storage_bandwidth = 0;  // bytes per second that one rank reads samples at; 0 = never waits
  double price_per_hour = 0;     // of one rank's device

  [[nodiscard]] double flops(Precision precision) const {
    return device.peak_flops[static_cast<std::size_t>(precision)];
  }
  [[nodiscard]] Efficiency efficiency_of_counted() const;
};

// Raises ExitCode::config with "file:line: key: value ...; allowed ..." for anything wrong:
// unknown, missing and doubled keys, wrong types, values out of range.
[[nodiscard]] Hardware load_hardware(const std::string& path);
// The same from text; `name` stands for the file in messages.
[[nodiscard]] Hardware parse_hardware(std::string_view text, const std::string& name);
// YAML that parse_hardware reads back to the same values. `comment` stands above it, line by line.
[[nodiscard]] std::string to_yaml(const Hardware& hardware, std::string_view comment);

}  // namespace trireme::plan
