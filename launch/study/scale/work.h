// SPDX-License-Identifier: Apache-2.0
// The work of a point's step, by both usual counts, and its time as predicted by the planner.
#pragma once

#include <optional>

#include "runtime/config/config.h"

namespace trireme::scale {

// FLOPs of one step on all ranks together.
struct PointWork {
  // 6 N per token or image, N being the parameters of matrix products (PaLM: Chowdhery et al.,
  // 2022, appendix B); the same plus attention and convolutions: three times the forward.
  double six_n = 0, model = 0;
  // Including the forward work that train.recompute repeats.
  double hardware = 0;
  double peak = 0;                    // FLOP/s by parallel.hardware; 0: no file is set
  std::optional<double> predicted{};  // seconds per step, by the same file
};

// For a resolved config. Raises ExitCode::config for an invalid hardware file.
[[nodiscard]] PointWork work_of(const Config& config);

}  // namespace trireme::scale
