// SPDX-License-Identifier: Apache-2.0
// The parts of a config that `trireme data inspect` prints. Private to this folder.
#pragma once

#include <string>

#include "data/fields/field_dataset.h"

namespace trireme {

// The run and model sections for data that was opened with these options: a family for its samples
// and targets, of `classes`.
[[nodiscard]] std::string run_and_model_text(const FieldDataset& data, const FieldOptions& options,
                                             std::int64_t classes);
// The paths, shapes and validation set of the data section.
[[nodiscard]] std::string place_text(const FieldDataset& data, const FieldOptions& options);

}  // namespace trireme
