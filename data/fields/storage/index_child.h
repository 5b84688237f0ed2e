// SPDX-License-Identifier: Apache-2.0
// Asks the HDF5 library about files in processes of their own, with limits on memory and time: a
// file that makes the library crash ends one of these, and becomes an error that names the file.
// They are this very program, started anew (see index_child.cpp), so nothing has to be installed
// beside it, and neither MPI nor CUDA is in them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "data/hdf5/field_scan.h"

namespace trireme {

// The indexes of `paths`, in order, by up to `processes` of these. Raises ExitCode::data naming the
// first file that cannot be read.
[[nodiscard]] std::vector<FileIndex> scan_in_children(std::span<const std::string> paths,
                                                      const ScanRequest& request,
                                                      std::size_t processes);

}  // namespace trireme
