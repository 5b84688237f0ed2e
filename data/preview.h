// SPDX-License-Identifier: Apache-2.0
// Samples as pictures, to be looked at.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/fields/field_dataset.h"
#include "data/images/files_dataset.h"

namespace trireme {

// Grey PNG files sample_<index>_label_<label>.png in `directory`, of `count` samples evenly spread:
// channels side by side, each from black at its least value to white at its greatest; what is NaN
// or infinite is black. Returns their paths.
[[nodiscard]] std::vector<std::string> write_previews(const FieldDataset& data,
                                                      const std::string& directory,
                                                      std::int64_t count);

// The same of images, as read() gives them, in their colours; not of those left out as damaged.
[[nodiscard]] std::vector<std::string> write_previews(const ImageFilesDataset& data,
                                                      const std::string& directory,
                                                      std::int64_t count);

}  // namespace trireme
