// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/nccl/nccl_check.h"

#include <string_view>

#include "runtime/base/error.h"

namespace trireme::detail {
namespace {

std::string_view name_of(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "ncclSuccess";
    case ncclUnhandledCudaError:
      return "ncclUnhandledCudaError";
    case ncclSystemError:
      return "ncclSystemError";
    case ncclInternalError:
      return "ncclInternalError";
    case ncclInvalidArgument:
      return "ncclInvalidArgument";
    case ncclInvalidUsage:
      return "ncclInvalidUsage";
    case ncclRemoteError:
      return "ncclRemoteError";
    case ncclInProgress:
      return "ncclInProgress";
    case ncclNumResults:
      break;
  }
  return "an unknown NCCL result";
}

}  // namespace

std::string text_of(ncclResult_t result) {
  std::string text = fmt::format("{}: {}", name_of(result), ncclGetErrorString(result));
  // Per process, because its communicator may be gone.
  const char* const last = ncclGetLastError(nullptr);
  if (last != nullptr && *last != '\0') text += fmt::format(" ({})", last);
  if (result == ncclUnhandledCudaError || result == ncclSystemError)
    text +=
        "; NCCL_DEBUG=INFO shows what it tried, and with NCCL_NVLS_ENABLE=0 it needs no fabric "
        "manager for NVSwitches";
  return text;
}

void check_nccl(ncclResult_t result, const char* call, std::source_location where) {
  if (result == ncclSuccess || result == ncclInProgress) [[likely]]
    return;
  library_failed(call, text_of(result), ExitCode::communication, where);
}

}  // namespace trireme::detail
