// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

namespace trireme {

// Names and versions of the libraries that decide results and speed, as found at run time.
[[nodiscard]] std::map<std::string, std::string> library_versions();

}  // namespace trireme
