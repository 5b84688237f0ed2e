// SPDX-License-Identifier: Apache-2.0
// Private to this folder: the only way to call NCCL, and the only header that includes nccl.h.
#pragma once

#include <nccl.h>

#include <source_location>
#include <string>

// Raises ExitCode::communication with the call's text, NCCL's error class, its explanation and its
// last message. ncclInProgress is no error: all communicators are non-blocking, and callers poll
// (nccl_handle.h).
#define TRIREME_NCCL(call) ::trireme::detail::check_nccl((call), #call)

namespace trireme::detail {

void check_nccl(ncclResult_t result, const char* call,
                std::source_location where = std::source_location::current());

// "ncclRemoteError: remote process exited (...the library's last message...)"
[[nodiscard]] std::string text_of(ncclResult_t result);

}  // namespace trireme::detail
