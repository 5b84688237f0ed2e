// SPDX-License-Identifier: Apache-2.0
// Splits samples into training, validation and test by one of their attributes. Private to this
// folder.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/fields/sample_numbers.h"

namespace trireme {

// The samples of options.subset in ascending order, numbered over all units: those with a key
// (options.split_key) among that part's values, or for training in no part's. Depends only on the
// files. Raises ExitCode::data, naming key and value, for a value without samples or in two parts,
// a key that is not one per sample or unit, and a part without samples.
[[nodiscard]] std::vector<std::uint64_t> samples_by_key(const FieldReader& reader,
                                                        std::span<const UnitFields> units,
                                                        const SampleShape& shape,
                                                        const FieldOptions& options);

}  // namespace trireme
