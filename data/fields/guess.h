// SPDX-License-Identifier: Apache-2.0
// Guesses which data set of a file a run would read and what its labels, or other targets, could
// be: from names, extents and reserved names of HDF5, netCDF, PyTables and MATLAB. A pure function
// of a listing. Private to this folder.
#pragma once

#include <string>
#include <vector>

#include "data/fields/storage/field_index.h"
#include "runtime/config/choices.h"
#include "runtime/config/target_spec.h"

namespace trireme {

struct Guess {
  SampleUnit unit = SampleUnit::file;
  std::string input, axes;
  std::string target;  // "" if nothing can be a target
  TargetKind predicted = TargetKind::label;
  std::string groups = "*";                             // of unit group
  std::string group_list{}, validation_group_list{};    // "mask/train", "mask/valid"
  std::string validation_input{}, validation_target{};  // "X_val", "y_val" beside "X_train"

  [[nodiscard]] bool is_volume() const {
    return predicted != TargetKind::label && axes.find('D') != std::string::npos;
  }
};

struct Guesses {
  // One input with each of its possible targets, the most likely first. None: no data set has rows
  // and columns.
  std::vector<Guess> likely{};
  std::vector<std::string> beside{};  // data sets with the input's name in other groups: "val/x"
};

// `fields`: everything in a file, with attributes.
[[nodiscard]] Guesses guess_samples(const std::vector<StoredField>& fields);

}  // namespace trireme
