// SPDX-License-Identifier: Apache-2.0
// One data set or attribute, as the HDF5 library describes it, into what reading it takes. Sources
// of this folder alone include this.
#pragma once

#include <string>
#include <vector>

#include "data/fields/storage/field_index.h"
#include "data/hdf5/field_scan.h"
#include "data/hdf5/object_path.h"

namespace trireme {

// Raise ExitCode::data, with file and object, for what is not there or cannot be read.
[[nodiscard]] StoredField scan_data_set(const ObjectPlace& place, const ScanRequest& request,
                                        int depth = 0);
[[nodiscard]] StoredField scan_attribute(const ObjectPlace& place, const std::string& name,
                                         const ScanRequest& request);

// What the attributes of a data set of numbers say of them.
void scan_packing(const ObjectPlace& place, const ScanRequest& request, StoredField& field);
// The library reads the sources of a virtual data set as they are stored. Raises ExitCode::data
// where attributes of `source` say something of its numbers that those of `place` do not.
void require_same_packing(const ObjectPlace& place, const ObjectPlace& source,
                          const ScanRequest& request);

[[nodiscard]] bool is_group(const ObjectPlace& place);
[[nodiscard]] std::vector<std::string> members_of(const OpenHdf5& file, const std::string& group);
[[nodiscard]] std::vector<std::string> attributes_of(const ObjectPlace& place);

// The type of numbers, or nothing. `why` says what the type is instead.
[[nodiscard]] bool element_type_of(hid_t type, bool bfloat16, ElementType& to, std::string& why);

// The sources of a virtual data set.
void scan_parts(const ObjectPlace& place, hid_t properties, StoredField& field,
                const ScanRequest& request, int depth);

}  // namespace trireme
