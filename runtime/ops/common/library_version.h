// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace trireme::ops {

// Version of the oneDNN library found at run time, "2.6.3".
[[nodiscard]] std::string onednn_version();
// Likewise, empty where it is not in the build. Raises ExitCode::config where the one that was
// found is too old for it.
[[nodiscard]] std::string cudnn_version();
// Likewise; any is taken.
[[nodiscard]] std::string cublaslt_version();

}  // namespace trireme::ops
