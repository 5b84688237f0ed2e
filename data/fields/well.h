// SPDX-License-Identifier: Apache-2.0
// Files of The Well (Ohana et al., 2024; its docs/data_format.md): fields of simulations,
// (trajectory, step, x, y[, z]) float32 in the groups t0_fields (scalars), t1_fields (vectors) and
// t2_fields (matrices), whose attributes say along which axes each varies. Private to this folder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/fields/storage/field_index.h"
#include "data/kinds.h"

namespace trireme {

struct WellFields {
  // Data sets and their axes (data.axes); the first varies along all. Targets are those that vary
  // in time, which come first.
  std::vector<std::string> inputs{}, axes{}, targets{};
  std::uint64_t steps = 0;
  std::string text{};     // comments: channels, constants, boundary conditions, what is left out
  std::string problem{};  // why there is nothing to train on, or ""
};

// `file`: everything in it. Nothing if it has none of these groups.
[[nodiscard]] std::optional<WellFields> well_fields(const FileIndex& file);

// A config that predicts the next step from four. `names`: of all `files`. Raises ExitCode::data if
// they form no data set.
[[nodiscard]] Description described_well(const WellFields& well,
                                         const std::vector<std::string>& names,
                                         const std::vector<std::string>& files);

}  // namespace trireme
