// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace trireme::ops {

// Version of the oneDNN library found at run time, "2.6.3".
[[nodiscard]] std::string onednn_version();

}  // namespace trireme::ops
