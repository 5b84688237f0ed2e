// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <string>

#include "runtime/comm/host/mpi_check.h"
#include "runtime/comm/mpi.h"

namespace trireme {

std::string mpi_library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  TRIREME_MPI(MPI_Get_library_version(text.data(), &length));
  const std::string whole(text.data(), static_cast<std::size_t>(length));
  return whole.substr(0, whole.find(','));  // "Open MPI v4.1.4"
}

}  // namespace trireme
