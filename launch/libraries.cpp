// SPDX-License-Identifier: Apache-2.0
#include "launch/libraries.h"

#include "data/library_version.h"
#include "runtime/comm/mpi.h"
#include "runtime/ops/library_version.h"

namespace trireme {

std::map<std::string, std::string> library_versions() {
  return {
      {"MPI", mpi_library_version()}, {"HDF5", hdf5_version()}, {"oneDNN", ops::onednn_version()}};
}

}  // namespace trireme
