// SPDX-License-Identifier: Apache-2.0
// A run's work and memory by its config, as computed by `trireme plan`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/config/config.h"

namespace trireme::report {

// One use of memory in bytes, on the rank with the most.
struct MemoryUse {
  std::string name{};
  std::uint64_t planned = 0;
  std::optional<std::uint64_t> measured{};
};

struct ModelFigures {
  double flops_per_item = 0;  // forward and backward, per token or image
  // Over all ranks in the run's precision, from parallel.hardware; 0: no file is set.
  double peak_flops = 0;
  std::vector<MemoryUse> memory{};
};

// For a resolved config. Raises Error if this version cannot plan it, or the hardware file cannot
// be read.
[[nodiscard]] ModelFigures model_figures(const Config& config);

// Adds the measured memory of the run in `directory` (its memory.json), if the run has ended.
void add_measured_memory(ModelFigures& figures, const std::string& directory);

}  // namespace trireme::report
