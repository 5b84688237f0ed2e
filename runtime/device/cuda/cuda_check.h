// SPDX-License-Identifier: Apache-2.0
// Private to the CUDA back end: the only way to call the CUDA runtime.
#pragma once

#include <cuda_runtime.h>

#include <source_location>

// Raises ExitCode::internal with the call's text, CUDA's error name and its explanation.
#define TRIREME_CUDA(call) ::trireme::detail::check_cuda((call), #call)

namespace trireme::detail {

void check_cuda(cudaError_t code, const char* call,
                std::source_location where = std::source_location::current());
// For destructors: prints the error instead.
void report_cuda(cudaError_t code, const char* call) noexcept;

}  // namespace trireme::detail
