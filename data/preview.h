// SPDX-License-Identifier: Apache-2.0
// Writes samples as pictures.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/fields/field_dataset.h"
#include "data/images/files_dataset.h"

namespace trireme {

// Writes `count` evenly spaced samples as grey PNG files sample_<index>_label_<label>.png in
// `directory`, without a label if it is none: channels side by side, of volumes their middle slice,
// each scaled from black at its minimum to white at its maximum; NaN and infinity are black.
// Returns the paths.
[[nodiscard]] std::vector<std::string> write_previews(const FieldDataset& data,
                                                      const std::string& directory,
                                                      std::int64_t count);

// The same for images from read(), in colour; skips damaged ones.
[[nodiscard]] std::vector<std::string> write_previews(const ImageFilesDataset& data,
                                                      const std::string& directory,
                                                      std::int64_t count);

}  // namespace trireme
