// SPDX-License-Identifier: Apache-2.0
// What a data set asks of the fields in its files, with those that a virtual field consists of.
#pragma once

#include <string>
#include <vector>

#include "data/fields/field_options.h"
#include "data/fields/storage/field_index.h"
#include "data/hdf5/field_scan.h"

namespace trireme {

// The request to the HDF5 library for a data set: its fields, but for targets in other files.
[[nodiscard]] ScanRequest scan_request(const FieldOptions& options);

// Raises ExitCode::data for a filter that is not known.
void require_readable(const FileIndex& file, const StoredField& field);
// Raises ExitCode::data for a deflated array that a cache of `megabytes` does not hold: it is one
// chunk, which every sample would decode again.
void require_cached(const FileIndex& file, const StoredField& field, double megabytes);
// Adds the files other than the index's own.
void add_files(const StoredField& field, std::vector<std::string>& paths);
// Removes paths, which differ in a copy of the files.
void leave_out_places(StoredField& field);

}  // namespace trireme
