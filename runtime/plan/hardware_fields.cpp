// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/hardware_fields.h"

namespace trireme::plan {
namespace {

constexpr double min_rate = 1, max_rate = 1e18;  // FLOP/s and bytes per second
constexpr double max_bytes = 1e15;
constexpr double max_seconds = 1e6;
constexpr double max_ranks = 1 << 20;
constexpr double min_share = 1e-4;

template <Precision precision>
HardwareSlot peak(Hardware& hardware) {
  return &hardware.device.peak_flops[static_cast<std::size_t>(precision)];
}

}  // namespace

std::span<const HardwareField> hardware_fields() {
  using H = Hardware;
  using Slot = HardwareSlot;
  static const HardwareField fields[] = {
      {"", "name", [](H& h) -> Slot { return &h.name; }, 0, 0, true},
      {"", "straggler_deviation", [](H& h) -> Slot { return &h.straggler_deviation; }, 0, 10},
      {"", "storage_bandwidth", [](H& h) -> Slot { return &h.storage_bandwidth; }, 0, max_rate},
      {"", "price_per_hour", [](H& h) -> Slot { return &h.price_per_hour; }, 0, 1e6},

      {"device", "memory_bytes", [](H& h) -> Slot { return &h.device.memory_bytes; }, min_rate,
       max_bytes, true},
      {"device", "framework_bytes", [](H& h) -> Slot { return &h.device.framework_bytes; }, 0,
       max_bytes},
      {"device", "memory_bandwidth", [](H& h) -> Slot { return &h.device.memory_bandwidth; },
       min_rate, max_rate, true},
      {"device", "launch_seconds", [](H& h) -> Slot { return &h.device.launch_seconds; }, 0, 1},
      {"device", "multiprocessors", [](H& h) -> Slot { return &h.device.multiprocessors; }, 0,
       4096},
      {"device", "compute_capability", [](H& h) -> Slot { return &h.device.compute_capability; }, 0,
       999},

      {"peak_flops", "fp32", peak<Precision::fp32>, min_rate, max_rate, true},
      {"peak_flops", "tf32", peak<Precision::tf32>, min_rate, max_rate},
      {"peak_flops", "bf16", peak<Precision::bf16>, min_rate, max_rate},
      {"peak_flops", "fp16", peak<Precision::fp16>, min_rate, max_rate},
      {"peak_flops", "fp8", peak<Precision::fp8>, min_rate, max_rate},

      {"efficiency", "matmul", [](H& h) -> Slot { return &h.efficiency.matmul; }, min_share, 1,
       true},
      {"efficiency", "attention", [](H& h) -> Slot { return &h.efficiency.attention; }, min_share,
       1, true},
      {"efficiency", "attention_64", [](H& h) -> Slot { return &h.efficiency.attention_64; }, 0, 1},
      {"efficiency", "convolution", [](H& h) -> Slot { return &h.efficiency.convolution; },
       min_share, 1, true},
      {"efficiency", "memory", [](H& h) -> Slot { return &h.efficiency.memory; }, min_share, 1,
       true},
      {"efficiency", "half_dimension", [](H& h) -> Slot { return &h.efficiency.half_dimension; }, 0,
       65536},

      {"node", "ranks", [](H& h) -> Slot { return &h.node.ranks; }, 1, max_ranks, true},
      {"node", "memory_bytes", [](H& h) -> Slot { return &h.node.memory_bytes; }, 0, max_bytes},
      {"node", "cores", [](H& h) -> Slot { return &h.node.cores; }, 0, max_ranks},
      {"node", "crowded_slowdown", [](H& h) -> Slot { return &h.node.crowded_slowdown; }, 1, 100},
      {"node", "scheduling_delay", [](H& h) -> Slot { return &h.node.scheduling_delay; }, 0, 10},

      {"links", "domain", [](H& h) -> Slot { return &h.links.domain; }, 1, max_ranks, true},
      {"links", "rails", [](H& h) -> Slot { return &h.links.rails; }, 1, max_ranks, true},
      {"links", "overlap", [](H& h) -> Slot { return &h.links.overlap; }, 0, 1},
      {"links", "cta_bandwidth", [](H& h) -> Slot { return &h.links.cta_bandwidth; }, 0, max_rate},
      {"links", "inside_latency", [](H& h) -> Slot { return &h.links.inside.latency; }, 0,
       max_seconds, true},
      {"links", "inside_bandwidth", [](H& h) -> Slot { return &h.links.inside.bandwidth; },
       min_rate, max_rate, true},
      {"links", "between_latency", [](H& h) -> Slot { return &h.links.between.latency; }, 0,
       max_seconds, true},
      {"links", "between_bandwidth", [](H& h) -> Slot { return &h.links.between.bandwidth; },
       min_rate, max_rate, true},

      {"reliability", "mtbf_hours", [](H& h) -> Slot { return &h.reliability.mtbf_hours; }, 0, 1e9},
      {"reliability", "restart_seconds",
       [](H& h) -> Slot { return &h.reliability.restart_seconds; }, 0, max_seconds},
      {"reliability", "checkpoint_bandwidth",
       [](H& h) -> Slot { return &h.reliability.checkpoint_bandwidth; }, 0, max_rate},
  };
  return fields;
}

}  // namespace trireme::plan
