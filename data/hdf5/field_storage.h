// SPDX-License-Identifier: Apache-2.0
// Converts the HDF5 library's description of a data set or attribute for reading. Private to this
// folder.
#pragma once

#include <string>
#include <vector>

#include "data/fields/storage/field_index.h"
#include "data/hdf5/field_scan.h"
#include "data/hdf5/object_path.h"

namespace trireme {

// Raise ExitCode::data, with file and object, if it is missing or cannot be read.
[[nodiscard]] StoredField scan_data_set(const ObjectPlace& place, const ScanRequest& request,
                                        int depth = 0);
[[nodiscard]] StoredField scan_attribute(const ObjectPlace& place, const std::string& name,
                                         const ScanRequest& request);

// Reads the packing attributes of a data set.
void scan_packing(const ObjectPlace& place, const ScanRequest& request, StoredField& field);
// The library reads the sources of a virtual data set as stored. Raises ExitCode::data if `source`
// has packing attributes that `place` lacks.
void require_same_packing(const ObjectPlace& place, const ObjectPlace& source,
                          const ScanRequest& request);

[[nodiscard]] bool is_group(const ObjectPlace& place);
[[nodiscard]] std::vector<std::string> members_of(const OpenHdf5& file, const std::string& group);
[[nodiscard]] std::vector<std::string> attributes_of(const ObjectPlace& place);

// Whether it is a number type. If not, `why` names it.
[[nodiscard]] bool element_type_of(hid_t type, bool bfloat16, ElementType& to, std::string& why);

// The sources of a virtual data set.
void scan_parts(const ObjectPlace& place, hid_t properties, StoredField& field,
                const ScanRequest& request, int depth);

}  // namespace trireme
