// SPDX-License-Identifier: Apache-2.0
// The work of a point's step, by both usual counts, and what the planner predicts for it.
#pragma once

#include <optional>

#include "runtime/config/config.h"

namespace trireme::scale {

// FLOPs of one step on all ranks together.
struct PointWork {
  // 6 N for each token or image, N being the parameters of products (PaLM: Chowdhery et al., 2022,
  // appendix B), and the same with attention and convolutions: three times the forward.
  double six_n = 0, model = 0;
  // With the forward work that train.recompute repeats.
  double hardware = 0;
  double peak = 0;                    // FLOP/s by parallel.hardware; 0: it names no file
  std::optional<double> predicted{};  // seconds per step, by the same
};

// Of a resolved config. Raises ExitCode::config for a broken description of hardware.
[[nodiscard]] PointWork work_of(const Config& config);

}  // namespace trireme::scale
