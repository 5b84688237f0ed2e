// SPDX-License-Identifier: Apache-2.0
// Which data set of a file a run would read, and what could be its labels: by names, extents and
// what the conventions of HDF5, netCDF, PyTables and MATLAB reserve. Pure: of a listing. Private to
// this folder.
#pragma once

#include <string>
#include <vector>

#include "data/fields/storage/field_index.h"
#include "runtime/config/choices.h"

namespace trireme {

struct Guess {
  SampleUnit unit = SampleUnit::file;
  std::string input, axes;
  std::string target;  // "" where nothing can be a label
};

struct Guesses {
  // Of one input with each label that it may have, the likeliest first. None: no data set has rows
  // and columns.
  std::vector<Guess> likely{};
  std::vector<std::string> beside{};  // data sets as the input in other groups: "val/x"
  bool one_of_numbered = false;       // groups as "demo_0", which make no samples
};

// `fields`: of everything in a file, with its attributes.
[[nodiscard]] Guesses guess_samples(const std::vector<StoredField>& fields);

}  // namespace trireme
