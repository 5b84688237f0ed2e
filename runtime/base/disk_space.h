// SPDX-License-Identifier: Apache-2.0
// What a write that failed for want of room means to whoever starts the program again.
#pragma once

#include "runtime/base/error.h"

namespace trireme {

// `code`; but ExitCode::internal in the place of ExitCode::config where `error`, an errno, says
// that the disk is full or a quota used up: no fault of the configuration, and later there may be
// room, so that launch scripts try again.
[[nodiscard]] ExitCode code_of_failed_write(int error, ExitCode code) noexcept;

}  // namespace trireme
