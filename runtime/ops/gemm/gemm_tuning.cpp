// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/gemm/gemm_tuning.h"

#include "runtime/device/cuda_slot.h"

namespace trireme::ops {
namespace {

template <auto function>
[[nodiscard]] auto provided() {
  if (cuda_slot<function> == nullptr) {
    fail(ExitCode::config,
         "device.autotune: measured algorithms are part of the cuda backend, which this build "
         "lacks");
  }
  return cuda_slot<function>;
}

}  // namespace

GemmChoices no_gemm_choices(Device& device) {
  return provided<&no_gemm_choices>()(device);
}

void use_gemm_choices(GemmChoices choices, std::string file) {
  provided<&use_gemm_choices>()(std::move(choices), std::move(file));
}

std::vector<GemmKey> unmeasured_gemms() {
  return provided<&unmeasured_gemms>()();
}

void measure_gemm(Stream& stream, const GemmKey& key, GemmChoices& choices) {
  provided<&measure_gemm>()(stream, key, choices);
}

}  // namespace trireme::ops
