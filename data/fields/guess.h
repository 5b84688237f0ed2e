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
  int score = 0;                                        // what speaks for it
  bool volume = false;  // the axis D is that of a model of volumes, not channels
  bool maps = false;    // of predicted values
};

struct Guesses {
  // All readings, the most likely first. One without a target: there is none. Empty: no data set
  // has rows and columns.
  std::vector<Guess> likely{};
  std::vector<std::string> beside{};  // data sets with the input's name in other groups: "val/x"
  bool scattered = false;             // each sample is a data set of its own: "image_0", "image_1"
};

// `fields`: everything in the first of so many files, with attributes.
[[nodiscard]] Guesses guess_samples(const std::vector<StoredField>& fields, std::size_t files);

}  // namespace trireme
