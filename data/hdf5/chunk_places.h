// SPDX-License-Identifier: Apache-2.0
// Finds the file offsets of a data set's chunks. Up to version 2.0, H5Dget_chunk_info_by_coord and
// H5Dget_chunk_info return wrong chunks if an index orders them along other axes than the data set;
// each call also walks over all chunks. H5Dread is right, so our file driver records the offsets of
// its reads.
#pragma once

#include <string>

#include "data/fields/storage/field_index.h"
#include "runtime/hdf5/handle.h"

namespace trireme {

// Access properties that the functions below require.
[[nodiscard]] hdf5::Handle watched_access_properties(const std::string& subject);

// The chunk of `data`, of that type, that begins at element `at`. Its offset is never_written if it
// was never written.
[[nodiscard]] StoredChunk place_of_chunk(hid_t data, hid_t type, const hsize_t* at,
                                         const std::string& subject);

// The first byte of the file that H5Dread reads for element `at`; never_written if it reads
// nothing.
[[nodiscard]] std::uint64_t place_of_element(hid_t data, hid_t type, const hsize_t* at,
                                             const std::string& subject);

}  // namespace trireme
