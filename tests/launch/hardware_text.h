// SPDX-License-Identifier: Apache-2.0
// A machine for plans: one node of 8 processor cores.
#pragma once

#include <string>

namespace trireme::test {

inline const std::string small_machine = R"(
name: test machine
price_per_hour: 2
device: {memory_bytes: 1000000000, framework_bytes: 50000000, memory_bandwidth: 1e10, launch_seconds: 1e-6}
peak_flops: {fp32: 1e11, bf16: 1e11, fp16: 1e11, fp8: 1e11}
efficiency: {matmul: 0.8, attention: 0.5, convolution: 0.5, memory: 0.8, half_dimension: 16}
node: {ranks: 8, cores: 8}
links: {domain: 8, rails: 1, overlap: 0.5, inside_latency: 1e-5, inside_bandwidth: 1e9, between_latency: 1e-4, between_bandwidth: 1e8}
)";

// `text` with another value of one of its keys.
inline std::string with_value(std::string text, const std::string& key, const std::string& value) {
  const auto at = text.find(key + ": ") + key.size() + 2;
  return text.replace(at, text.find_first_of(",}\n", at) - at, value);
}

// The same machine with a device for each rank.
inline std::string without_cores() {
  return with_value(small_machine, "cores", "0");
}

}  // namespace trireme::test
