// SPDX-License-Identifier: Apache-2.0
// telemetry.mllog_benchmark: whose keys MLPerf's log has.
#pragma once

#include "runtime/config/choices.h"

namespace trireme {

enum class MlperfBenchmark : std::uint8_t {
  none,
  cosmoflow,
  deepcam,
  gpt_oss_20b,
  llama31_8b,
  unet3d
};
[[nodiscard]] constexpr auto names_of(MlperfBenchmark /*key*/) {
  return std::to_array<Named<MlperfBenchmark>>({{MlperfBenchmark::none, "none"},
                                                {MlperfBenchmark::cosmoflow, "cosmoflow"},
                                                {MlperfBenchmark::deepcam, "deepcam"},
                                                {MlperfBenchmark::gpt_oss_20b, "gpt_oss_20b"},
                                                {MlperfBenchmark::llama31_8b, "llama31_8b"},
                                                {MlperfBenchmark::unet3d, "unet3d"}});
}

}  // namespace trireme
