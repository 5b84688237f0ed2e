// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

namespace trireme {

// Names and run-time versions of the libraries that affect results and speed.
[[nodiscard]] std::map<std::string, std::string> library_versions();

}  // namespace trireme
