// SPDX-License-Identifier: Apache-2.0
// Where the HDF5 library reads the numbers of a data set from. It is not asked for that: up to
// version 2.0 H5Dget_chunk_info_by_coord names wrong chunks where an index counts them along other
// axes than the data set, and so does H5Dget_chunk_info; each of their calls also walks over all
// chunks. H5Dread is right, and a file driver of our own sees where its reads go.
#pragma once

#include <string>

#include "data/fields/storage/field_index.h"
#include "runtime/hdf5/handle.h"

namespace trireme {

// Access properties of the files that the functions below look at.
[[nodiscard]] hdf5::Handle watched_access_properties(const std::string& subject);

// The chunk of `data`, of that type, which begins at the element `at`. Of one that was never
// written the offset is never_written.
[[nodiscard]] StoredChunk place_of_chunk(hid_t data, hid_t type, const hsize_t* at,
                                         const std::string& subject);

// The byte of the file that H5Dread begins with to read the element `at`, or never_written where it
// reads nothing.
[[nodiscard]] std::uint64_t place_of_element(hid_t data, hid_t type, const hsize_t* at,
                                             const std::string& subject);

}  // namespace trireme
