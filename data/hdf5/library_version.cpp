// SPDX-License-Identifier: Apache-2.0
#include <hdf5.h>

#include "data/shard/library_version.h"
#include "runtime/base/error.h"

namespace trireme {

std::string hdf5_version() {
  unsigned major = 0, minor = 0, release = 0;
  if (H5get_libversion(&major, &minor, &release) < 0)
    library_failed("H5get_libversion", "no version");
  return fmt::format("{}.{}.{}", major, minor, release);
}

}  // namespace trireme
