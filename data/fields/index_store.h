// SPDX-License-Identifier: Apache-2.0
// Indexes of files kept in a file, so that a run that goes on asks nothing of the HDF5 library.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "data/hdf5/field_scan.h"

namespace trireme {

// With the stamps of all files that the indexes lead to. Atomic.
void keep_indexes(const std::string& path, const ScanRequest& request,
                  std::span<const FileIndex> indexes);

// "a.h5 was", "a.h5 and 2 more were"; "" for none.
[[nodiscard]] std::string first_of(const std::vector<std::string>& files);

struct KeptIndexes {
  std::vector<FileIndex> indexes;
  std::string touched;  // "a.h5 and 2 more were": files written to since that kept their size
};

// Of those of `files` that `path` has an index of for the same request, and that have not changed
// since, by all that the file system tells. None where `path` is not there, or is damaged: that is
// no error. A file whose ctime alone is another is looked at again, with a warning: it may have
// been restored with its time of change, or written to and that set back.
[[nodiscard]] KeptIndexes kept_indexes(const std::string& path, const ScanRequest& request,
                                       std::span<const std::string> files);

}  // namespace trireme
