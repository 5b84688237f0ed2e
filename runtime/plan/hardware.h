// SPDX-License-Identifier: Apache-2.0
// The planner's description of a machine: configs/hardware/*.yaml, or measured by
// `trireme bench machine`. Seconds, bytes, FLOP/s throughout.
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
  double framework_bytes = 0;  // used by contexts and libraries before the first tensor
  double memory_bandwidth = 0;
  double launch_seconds = 0;           // a kernel or op call without work
  int multiprocessors = 0;             // of a GPU; 0 = not known
  int compute_capability = 0;          // 90 for 9.0; 0 = not known
  std::array<double, 5> peak_flops{};  // by resolved Precision; 0 = not supported
};

// Achieved fractions of the peaks.
struct Efficiency {
  double matmul = 1;  // of large matmuls
  // Of attention's flops outside its projections: for heads of 128 or more, of 64 or fewer (0: the
  // same), interpolated in between.
  double attention = 1, attention_64 = 0;
  double convolution = 1;  // of large convolutions
  double memory = 1;       // of the bandwidth, for element-wise kernels and the optimizer
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
  int ranks = 1;            // when full
  double memory_bytes = 0;  // of the host, for page-locked memory beside GPUs; 0 = not described
  // CPU cores shared by its ranks; 0 = each rank has its own device.
  int cores = 0;
  // Compute time with as many ranks as cores, relative to a single rank (caches, memory, clock).
  double crowded_slowdown = 1;
  // With more ranks than cores: seconds until the scheduler preempts a computing rank, a tick of
  // Linux with HZ=250.
  double scheduling_delay = 4e-3;
};

struct Link {
  double latency = 0;    // alpha: seconds of one message
  double bandwidth = 0;  // 1 / beta: bytes per second that a rank sends while receiving as many
};

// Ranks [n * domain, (n + 1) * domain) communicate over `inside` (shared memory, NVLink); all
// others over `between`, with `rails` adapters per domain of `between.bandwidth` each.
struct Links {
  int domain = 1;
  int rails = 1;
  Link inside{}, between{};
  // Fraction of concurrent communication that does not slow computation: 1 for separate engines, 0
  // if both need the same cores.
  double overlap = 1;
  double cta_bandwidth = 0;  // of one thread block of NCCL; 0 = not known
};

struct Reliability {
  double mtbf_hours = 0;       // of one rank's device and its share of the node; 0 = never fails
  double restart_seconds = 0;  // from a failure to the first step after it
  double checkpoint_bandwidth = 0;  // bytes per second written per rank; 0 = free
};

struct Hardware {
  std::string name;
  DeviceFacts device{};
  Efficiency efficiency{};
  Node node{};
  Links links{};
  Reliability reliability{};
  double straggler_deviation = 0;  // of a rank's step time, relative to the mean
  double storage_bandwidth = 0;    // bytes per second of samples per rank; 0 = never waits
  double price_per_hour = 0;       // per rank's device

  [[nodiscard]] double flops(Precision precision) const {
    return device.peak_flops[static_cast<std::size_t>(precision)];
  }
};

// The machine whose ranks have slices of its GPUs (MIG) instead, by profile: "3g.40gb" has 3 of 7
// parts of the multiprocessors and 40 GiB, with their share of the bandwidth. Slices reach no
// peer's memory, so messages go as between nodes. Raises ExitCode::config for what is no profile or
// no GPU's.
[[nodiscard]] Hardware slice_of(Hardware hardware, const std::string& profile);

// Raises ExitCode::config with "file:line: key: value ...; allowed ..." for unknown, missing and
// duplicate keys, wrong types, and values out of range.
[[nodiscard]] Hardware load_hardware(const std::string& path);
// The same from text; messages name the file `name`.
[[nodiscard]] Hardware parse_hardware(std::string_view text, const std::string& name);
// YAML that parse_hardware reads back to the same values. `comment` precedes it, line by line.
[[nodiscard]] std::string to_yaml(const Hardware& hardware, std::string_view comment);

}  // namespace trireme::plan
