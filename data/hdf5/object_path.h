// SPDX-License-Identifier: Apache-2.0
// Paths in HDF5 files, followed link by link: through soft links and, where they stay in the folder
// of their file, to other files.
#pragma once

#include <memory>
#include <string>

#include "runtime/hdf5/handle.h"

namespace trireme {

struct OpenHdf5 {
  std::string path;  // as given, or where a link leads
  hdf5::Handle file;
};

[[nodiscard]] std::shared_ptr<OpenHdf5> open_hdf5(const std::string& path);

struct ObjectPlace {
  std::shared_ptr<OpenHdf5> file;
  std::string path;  // without links
};

// Raises ExitCode::data where there is no such object, links lead in circles or to where they may
// not.
[[nodiscard]] ObjectPlace resolve_object(std::shared_ptr<OpenHdf5> file, const std::string& path,
                                         bool outside_links);

// The file that a link, or a virtual data set, in `from` names. Raises ExitCode::data where it lies
// outside the folder of `from` and may not.
[[nodiscard]] std::string linked_file(const OpenHdf5& from, const std::string& name,
                                      bool outside_links);

}  // namespace trireme
