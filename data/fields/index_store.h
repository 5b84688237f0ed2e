// SPDX-License-Identifier: Apache-2.0
// Indexes of files kept in a file, so that a run that goes on asks nothing of the HDF5 library.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "data/hdf5/field_scan.h"

namespace trireme {

// Atomic.
void keep_indexes(const std::string& path, const ScanRequest& request,
                  std::span<const FileIndex> indexes);

// Those of `files` that `path` has an index of for the same request, and that have not changed
// since, by size and time of change. None where `path` is not there, or is damaged: that is no
// error.
[[nodiscard]] std::vector<FileIndex> kept_indexes(const std::string& path,
                                                  const ScanRequest& request,
                                                  std::span<const std::string> files);

}  // namespace trireme
