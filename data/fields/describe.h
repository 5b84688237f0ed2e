// SPDX-License-Identifier: Apache-2.0
// Looks at HDF5 files and says what they hold and how a run would read them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace trireme {

struct Description {
  std::string text;
  std::string problem;  // why there is no config in the text; "" where there is
};

// A config that trains on `names` (files, directories, patterns) as it stands, below comments with
// what the first file holds: shapes, types, storage, ranges and NaNs. Of the data sets it takes the
// largest as input and what looks like a label as target. Raises ExitCode::data where the first
// file cannot be looked at.
[[nodiscard]] Description describe_files(const std::vector<std::string>& names,
                                         std::size_t processes);

}  // namespace trireme
