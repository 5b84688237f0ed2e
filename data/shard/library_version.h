// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace trireme {

// Version of the HDF5 library at run time, "1.10.8".
[[nodiscard]] std::string hdf5_version();

}  // namespace trireme
