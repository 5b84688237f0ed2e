// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/layer_work.h"

#include <algorithm>

#include "runtime/base/error.h"

namespace trireme::plan {
namespace {

double rate_of(const Traffic& work, Precision precision, const Hardware& hardware) {
  const Efficiency& efficiency = hardware.efficiency;
  const Precision used = work.rate == WorkRate::matmul_fp32 ? Precision::fp32 : precision;
  const double peak = peak_of(used, work.rate == WorkRate::matmul_fp8, hardware);
  switch (work.rate) {
    case WorkRate::attention:
      return peak * efficiency.attention_of(work.smallest);
    case WorkRate::convolution:
      return peak * efficiency.convolution;
    case WorkRate::matmul:
    case WorkRate::matmul_fp32:
    case WorkRate::matmul_fp8:
      return peak * efficiency.matmul_of(work.smallest);
    case WorkRate::memory:
      break;
  }
  return peak;
}

}  // namespace

double peak_of(Precision precision, bool in_fp8, const Hardware& hardware) {
  const bool rest_of_fp8 = precision == Precision::fp8 && !in_fp8;
  const double flops = hardware.flops(rest_of_fp8 ? Precision::bf16 : precision);
  if (flops > 0) return flops;
  fail(ExitCode::config, "{}: peak_flops has no rate for precision {}", hardware.name,
       name_of(precision));
}

double seconds_of(const Traffic& work, Precision precision, const Hardware& hardware) {
  const double moved =
      (work.read + work.written) / (hardware.device.memory_bandwidth * hardware.efficiency.memory);
  const double computed = work.flops > 0 ? work.flops / rate_of(work, precision, hardware) : 0;
  return std::max(moved, computed) + work.kernels * hardware.device.launch_seconds;
}

}  // namespace trireme::plan
