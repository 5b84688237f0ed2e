// SPDX-License-Identifier: Apache-2.0
// Samples for training, validation and test told apart by a value of theirs. Private to this
// folder.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/fields/sample_numbers.h"

namespace trireme {

// The samples of options.subset, ascending, of all samples of the units counted together: those
// whose key (options.split_key) is one of the values of their part, or for training of none. It
// follows from the files alone. Raises ExitCode::data, naming key and value, for a value that no
// sample has or that is of two parts, a key that is not one per sample or unit, and a part without
// samples.
[[nodiscard]] std::vector<std::uint64_t> samples_by_key(const FieldReader& reader,
                                                        std::span<const UnitFields> units,
                                                        const SampleShape& shape,
                                                        const FieldOptions& options);

}  // namespace trireme
