// SPDX-License-Identifier: Apache-2.0
// The config that `trireme data inspect` prints for a reading of files. Private to this folder.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "data/fields/field_dataset.h"
#include "data/fields/guess.h"
#include "data/kinds.h"

namespace trireme {

// The files of a description: names as the user gave them, or .npy files, each with one of the data
// sets that a guess names.
struct DescribedFiles {
  std::vector<std::string> names{};
  std::map<std::string, std::string> arrays{};  // by a guess's name
};

// A config that trains on `found` in all files, or why there is none.
[[nodiscard]] Description described_as(const Guess& found, const DescribedFiles& files,
                                       std::size_t processes);
// The run and model sections for maps of `predicted`, as in "classes: 3", of images or volumes.
[[nodiscard]] std::string map_model_text(const SampleShape& shape, int filters,
                                         const std::string& predicted);
// How inputs are scaled. `least`: of deviations; 0: none is too small.
[[nodiscard]] std::string scaling_text(const FieldDataset& data, double least);
// The first few names, without control characters.
[[nodiscard]] std::string shown_names(const std::vector<std::string>& names);

}  // namespace trireme
