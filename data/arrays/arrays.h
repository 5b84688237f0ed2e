// SPDX-License-Identifier: Apache-2.0
// NumPy's files as an index: an .npy file holds the data set "array", an .npz archive one per
// member. Stored arrays are read in place, deflated ones as one chunk. Called in the child process
// (hdf5/child.h), like the HDF5 library, because files may be crafted.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/hdf5/field_scan.h"

namespace trireme {

// Whether a file begins like an .npy file or a ZIP archive. Raises ExitCode::data if it is no
// readable file.
[[nodiscard]] bool is_array_file(const std::string& path);

// As scan_file, of such a file. Raises ExitCode::data, naming file, array and the fix.
[[nodiscard]] FileIndex scan_arrays(const std::string& path, const ScanRequest& request);

// A member of a ZIP archive.
struct ZipMember {
  std::string name{};
  std::uint64_t offset = 0;                 // of its bytes in the file
  std::uint64_t bytes = 0, unpacked = 0;    // as stored, and after inflating
  std::optional<std::uint32_t> checksum{};  // CRC-32 after inflating
  bool deflated = false;
  std::string problem{};  // why it cannot be read, or ""
};

// All members, in the directory's order. Raises ExitCode::data if it is no archive, or a damaged
// one: what is returned lies inside the file.
[[nodiscard]] std::vector<ZipMember> zip_members(const FileDescriptor& file,
                                                 const std::string& path, std::uint64_t size);

}  // namespace trireme
