// SPDX-License-Identifier: Apache-2.0
// What a run's config says of its work and its memory, as `trireme plan` counts them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/config/config.h"

namespace trireme::report {

// One use of a rank's memory, bytes, of the rank that has most.
struct MemoryUse {
  std::string name{};
  std::uint64_t planned = 0;
  std::optional<std::uint64_t> measured{};
};

struct ModelFigures {
  double flops_per_item = 0;  // forward and backward, of a token or image
  // Of all ranks together in the run's precision, by parallel.hardware; 0: it names no file.
  double peak_flops = 0;
  std::vector<MemoryUse> memory{};
};

// Of a resolved config. Raises Error for one that this version cannot plan, and for a description
// of hardware that cannot be read.
[[nodiscard]] ModelFigures model_figures(const Config& config);

// Fills in what the run of `directory` held (its memory.json); nothing where it has not ended.
void add_measured_memory(ModelFigures& figures, const std::string& directory);

}  // namespace trireme::report
