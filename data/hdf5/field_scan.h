// SPDX-License-Identifier: Apache-2.0
// Asks the HDF5 library for the data sets and attributes of a file. A malicious file can crash the
// library, so call this only in a child process (child.h).
#pragma once

#include <string>
#include <vector>

#include "data/fields/storage/field_index.h"

namespace trireme {

struct ScanRequest {
  // "climate/data", "climate/data@label", "@label": in a file, or in each of its groups. Empty:
  // everything that can be read, with notes on the rest.
  std::vector<std::string> fields{};
  std::string groups{};        // one unit per group whose path matches; "": one per file
  std::string group_list{};    // a field of texts that names some of these; "": all
  bool outside_links = false;  // follow links to files outside this file's folder
  bool bfloat16 = false;       // read 16-bit unsigned integers as such
  bool unpack = true;          // by netCDF and CF attributes
  friend bool operator==(const ScanRequest&, const ScanRequest&) = default;
};

// Raises ExitCode::data, naming the file, the object that cannot be read, and why.
[[nodiscard]] FileIndex scan_file(const std::string& path, const ScanRequest& request);

}  // namespace trireme
