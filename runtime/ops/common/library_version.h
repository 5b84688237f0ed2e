// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace trireme::ops {

// Version of the oneDNN library at run time, "2.6.3".
[[nodiscard]] std::string onednn_version();
// Likewise; empty if it is not in the build. Raises ExitCode::config if the run-time library is too
// old for the build.
[[nodiscard]] std::string cudnn_version();
// Likewise; accepts any version.
[[nodiscard]] std::string cublaslt_version();

}  // namespace trireme::ops
