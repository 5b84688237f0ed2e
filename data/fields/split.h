// SPDX-License-Identifier: Apache-2.0
// Splits samples into training, validation and test by a key of theirs. Private to this folder.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/fields/sample_numbers.h"

namespace trireme {

// The samples of options.subset in ascending order, numbered over all units: those whose key
// (options.split_key) is a value of that part, or for training of no part. Depends on the files
// alone. Raises ExitCode::data, naming key and value, for a value that no sample has or that is in
// two parts, a key that is not one per sample or unit, and a part without samples.
[[nodiscard]] std::vector<std::uint64_t> samples_by_key(const FieldReader& reader,
                                                        std::span<const UnitFields> units,
                                                        const SampleShape& shape,
                                                        const FieldOptions& options);

}  // namespace trireme
