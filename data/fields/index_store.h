// SPDX-License-Identifier: Apache-2.0
// Indexes of files, stored so that a continued run need not query the HDF5 library.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/hdf5/field_scan.h"

namespace trireme {

// Also stores the stamps of all files that the indexes use. Atomic.
void keep_indexes(const std::string& path, const ScanRequest& request,
                  std::span<const FileIndex> indexes);

// "a.h5 was", "a.h5 and 2 more were"; "" for none.
[[nodiscard]] std::string first_of(const std::vector<std::string>& files);

// Where the indexes of data.target_files are stored, beside those of data.files.
[[nodiscard]] inline std::string targets_index(const std::string& path) {
  return path + ".targets";
}

struct KeptIndexes {
  std::vector<FileIndex> indexes;
  std::string touched;  // "a.h5 and 2 more were": files written to since, with unchanged size
};

// The stored indexes of those of `files` that have not changed, for the same request, as far as the
// file system tells. Empty, without an error, if `path` is missing or damaged. A file with only
// another ctime is indexed again, with a warning: it may have been restored with its old
// modification time, or written to and that time set back.
[[nodiscard]] KeptIndexes kept_indexes(const std::string& path, const ScanRequest& request,
                                       std::span<const std::string> files);

// Stores an index of files read in place with a run: a line with the request, the bytes, and a
// checksum of both.
// Atomic. `request` is a line without its end.
void keep_index_file(const std::string& path, const std::string& request, std::string_view bytes);

// The bytes stored for the same request; "" otherwise.
[[nodiscard]] std::string kept_index_file(const std::string& path, const std::string& request);

}  // namespace trireme
