// SPDX-License-Identifier: Apache-2.0
// Asks the HDF5 library where the data sets and attributes of a file lie. The library can be made
// to crash by what a file says: call this in a process that may (child.h).
#pragma once

#include <string>
#include <vector>

#include "data/fields/storage/field_index.h"

namespace trireme {

struct ScanRequest {
  // "climate/data", "climate/data@label", "@label": of a file, or of each group at its root. Empty:
  // everything that can be read, and notes of the rest.
  std::vector<std::string> fields{};
  bool groups = false;         // a unit per group at the root
  bool outside_links = false;  // follow links to files outside the folder of this one
  bool bfloat16 = false;       // of 16-bit unsigned integers
  bool unpack = true;          // by the attributes of netCDF and CF
  friend bool operator==(const ScanRequest&, const ScanRequest&) = default;
};

// Raises ExitCode::data, naming the file and what in it cannot be read and why.
[[nodiscard]] FileIndex scan_file(const std::string& path, const ScanRequest& request);

}  // namespace trireme
