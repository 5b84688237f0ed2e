// SPDX-License-Identifier: Apache-2.0
// Resolves paths in HDF5 files link by link: through soft links and, inside the file's folder, to
// other files.
#pragma once

#include <memory>
#include <string>

#include "runtime/hdf5/handle.h"

namespace trireme {

struct OpenHdf5 {
  std::string path;  // as given, or the target of a link
  hdf5::Handle file;
};

[[nodiscard]] std::shared_ptr<OpenHdf5> open_hdf5(const std::string& path);

struct ObjectPlace {
  std::shared_ptr<OpenHdf5> file;
  std::string path;  // with links resolved
};

// Raises ExitCode::data if there is no such object, or links form a cycle or lead where they may
// not.
[[nodiscard]] ObjectPlace resolve_object(std::shared_ptr<OpenHdf5> file, const std::string& path,
                                         bool outside_links);

// The file that a link or virtual data set in `from` names. Raises ExitCode::data if it is outside
// the folder of `from` without permission.
[[nodiscard]] std::string linked_file(const OpenHdf5& from, const std::string& name,
                                      bool outside_links);

}  // namespace trireme
